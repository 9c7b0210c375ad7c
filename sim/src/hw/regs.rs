//! The register map: offsets and fields, once, as typed constants.
//!
//! Source: `panthor_gpu_regs.h`, `panthor_mmu_regs.h` and `panthor_fw_regs.h` of Linux 7.2 (`panthor_regs.h` in 6.12);
//! the interrupt registers' order is that of `panthor_device.h`, `INT_RAWSTAT` and following.

use super::fault::Line;
use super::power::Domain;
use crate::model;
use crate::shader::{THREADS_PER_CORE, WORKGROUP_THREADS};

/// Bytes of the register window (device tree of the RK3588: `reg = <0x0 0xfb000000 0x0 0x200000>`).
pub const WINDOW: u32 = 0x20_0000;

/// GPU_IRQ_FAULT.
pub const GPU_IRQ_FAULT: u32 = 1 << 0;
/// GPU_IRQ_RESET_COMPLETED.
pub const GPU_IRQ_RESET_COMPLETED: u32 = 1 << 8;
/// GPU_IRQ_POWER_CHANGED: a single domain has changed.
pub const GPU_IRQ_POWER_CHANGED: u32 = 1 << 9;
/// GPU_IRQ_POWER_CHANGED_ALL: all changes that were asked for are done.
pub const GPU_IRQ_POWER_CHANGED_ALL: u32 = 1 << 10;
/// GPU_IRQ_CLEAN_CACHES_COMPLETED.
pub const GPU_IRQ_CLEAN_CACHES_COMPLETED: u32 = 1 << 17;
/// GPU_IRQ_MCU_STATUS_CHANGED.
pub const GPU_IRQ_MCU_STATUS_CHANGED: u32 = 1 << 19;
/// GPU_STATUS_ACTIVE.
pub const GPU_STATUS_ACTIVE: u32 = 1 << 0;
/// GPU_STATUS_PWR_ACTIVE.
pub const GPU_STATUS_PWR_ACTIVE: u32 = 1 << 1;
/// GPU_STATUS_PAGE_FAULT.
pub const GPU_STATUS_PAGE_FAULT: u32 = 1 << 4;
/// GPU_COHERENCY_NONE, a value of GPU_COHERENCY_PROTOCOL.
pub const GPU_COHERENCY_NONE: u32 = 31;
/// AS_STATUS_AS_ACTIVE.
pub const AS_STATUS_ACTIVE: u32 = 1 << 0;
/// JOB_INT_GLOBAL_IF: the global interface, in the job block; the bits below are the group slots'.
pub const JOB_IRQ_GLOBAL: u32 = 1 << 31;
/// CSF_GLB_DOORBELL_ID: the firmware's own doorbell page.
pub const DOORBELL_GLOBAL: u8 = 0;
/// Bits of the mmu block that mean a fault, one per address space; those from 16 on mean a completed command
/// (`panthor_mmu.c`, `panthor_mmu_fault_mask`).
pub const MMU_IRQ_FAULTS: u32 = 0xffff;
/// The first of the bits that mean a completed command.
pub const MMU_IRQ_COMPLETED_SHIFT: u32 = 16;

/// A register of an interrupt block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqReg {
    /// INT_RAWSTAT, 0x0.
    RawStat,
    /// INT_CLEAR, 0x4.
    Clear,
    /// INT_MASK, 0x8.
    Mask,
    /// INT_STAT, 0xc.
    Stat,
}

/// A register of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsReg {
    /// AS_TRANSTAB, 0x0.
    TransTab,
    /// AS_MEMATTR, 0x8.
    MemAttr,
    /// AS_LOCKADDR, 0x10.
    LockAddr,
    /// AS_COMMAND, 0x18.
    Command,
    /// AS_FAULTSTATUS, 0x1c.
    FaultStatus,
    /// AS_FAULTADDRESS, 0x20.
    FaultAddress,
    /// AS_STATUS, 0x28.
    Status,
    /// AS_TRANSCFG, 0x30.
    TransCfg,
    /// AS_FAULTEXTRA, 0x38.
    FaultExtra,
}

/// A value of AS_COMMAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AsCommand {
    /// AS_COMMAND_NOP.
    Nop = 0,
    /// AS_COMMAND_UPDATE: TRANSTAB, MEMATTR and TRANSCFG take effect.
    Update = 1,
    /// AS_COMMAND_LOCK: accesses to the region of LOCKADDR wait.
    Lock = 2,
    /// AS_COMMAND_UNLOCK: they go on, with translations read anew.
    Unlock = 3,
    /// AS_COMMAND_FLUSH_PT: page-table caches, then unlock.
    FlushPt = 4,
    /// AS_COMMAND_FLUSH_MEM: all caches, then unlock.
    FlushMem = 5,
}

impl AsCommand {
    /// The command of a value.
    #[must_use]
    pub fn from_value(value: u32) -> Option<Self> {
        use AsCommand::*;
        [Nop, Update, Lock, Unlock, FlushPt, FlushMem]
            .into_iter()
            .find(|command| *command as u32 == value)
    }
}

/// The address mode of AS_TRANSCFG, bits 0 to 3.
pub const TRANSCFG_ADRMODE: u64 = 0xf;
/// AS_TRANSCFG_ADRMODE_UNMAPPED.
pub const ADRMODE_UNMAPPED: u64 = 1;
/// AS_TRANSCFG_ADRMODE_IDENTITY.
pub const ADRMODE_IDENTITY: u64 = 2;
/// AS_TRANSCFG_ADRMODE_AARCH64_4K.
pub const ADRMODE_AARCH64_4K: u64 = 6;
/// AS_TRANSCFG_INA_BITS: `panthor_mmu.c`, `panthor_vm_active` writes 55 less the width of virtual addresses.
pub const TRANSCFG_INA_SHIFT: u32 = 6;
/// Five bits.
pub const TRANSCFG_INA_MASK: u64 = 0x1f;
/// What is subtracted from.
pub const TRANSCFG_INA_BASE: u64 = 55;

/// MCU_CONTROL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McuControl {
    /// MCU_CONTROL_DISABLE, 0.
    Disable,
    /// MCU_CONTROL_ENABLE, 1.
    Enable,
    /// MCU_CONTROL_AUTO, 2.
    Auto,
}

/// MCU_STATUS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum McuStatus {
    /// MCU_STATUS_DISABLED.
    #[default]
    Disabled = 0,
    /// MCU_STATUS_ENABLED.
    Enabled = 1,
    /// MCU_STATUS_HALT.
    Halt = 2,
    /// MCU_STATUS_FATAL.
    Fatal = 3,
}

/// A command of GPU_CMD: the type in bits 0 to 7, its payload above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuCommand {
    /// GPU_SOFT_RESET.
    SoftReset,
    /// GPU_HARD_RESET.
    HardReset,
    /// GPU_FLUSH_CACHES.
    Flush {
        /// CACHE_CLEAN (1) and CACHE_INV (2) of the L2.
        l2: u8,
        /// The same of the load-store caches.
        lsc: u8,
        /// The same of the others.
        other: u8,
    },
}

impl GpuCommand {
    /// The command of a value; `None` for what the driver's header does not have.
    #[must_use]
    pub fn from_value(value: u32) -> Option<Self> {
        let payload = value >> 8;
        match (value & 0xff, payload) {
            (1, 1) => Some(GpuCommand::SoftReset),
            (1, 2) => Some(GpuCommand::HardReset),
            (4, _) if payload & !0x333 == 0 => Some(GpuCommand::Flush {
                l2: (payload & 3) as u8,
                lsc: (payload >> 4 & 3) as u8,
                other: (payload >> 8 & 3) as u8,
            }),
            _ => None,
        }
    }
}

/// A register of the power blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerReg {
    /// *_PRESENT, 0x100.
    Present,
    /// *_READY, 0x140.
    Ready,
    /// *_PWRON, 0x180.
    PowerOn,
    /// *_PWROFF, 0x1c0.
    PowerOff,
    /// *_PWRTRANS, 0x200.
    Transition,
    /// *_PWRACTIVE, 0x240.
    Active,
}

/// Which word of a register of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Bits 0 to 31.
    Low,
    /// Bits 32 to 63.
    High,
}

impl Half {
    /// This half of a value.
    #[must_use]
    pub const fn of(self, value: u64) -> u32 {
        match self {
            Half::Low => value as u32,
            Half::High => (value >> 32) as u32,
        }
    }

    /// The value with this half replaced.
    #[must_use]
    pub const fn replace(self, value: u64, half: u32) -> u64 {
        match self {
            Half::Low => (value & !0xffff_ffff) | half as u64,
            Half::High => (value & 0xffff_ffff) | (half as u64) << 32,
        }
    }

    const fn at(offset: u32) -> Self {
        if offset & 4 == 0 {
            Half::Low
        } else {
            Half::High
        }
    }
}

/// A word of the register map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reg {
    /// A value of the model, read only.
    Fixed(u32),
    /// An interrupt block.
    Irq(Line, IrqReg),
    /// GPU_CMD, 0x30, write only.
    GpuCommand,
    /// GPU_STATUS, 0x34.
    GpuStatus,
    /// GPU_FAULT_STATUS, 0x3c.
    GpuFaultStatus,
    /// GPU_FAULT_ADDR, 0x40.
    GpuFaultAddress(Half),
    /// GPU_L2_CONFIG, 0x48.
    L2Config,
    /// GPU_TIMESTAMP_OFFSET, 0x88.
    TimestampOffset(Half),
    /// GPU_CYCLE_COUNT, 0x90.
    CycleCount(Half),
    /// GPU_TIMESTAMP, 0x98.
    Timestamp(Half),
    /// A power block.
    Power(Domain, PowerReg, Half),
    /// GPU_COHERENCY_PROTOCOL, 0x304.
    CoherencyProtocol,
    /// MCU_CONTROL, 0x700.
    McuControl,
    /// MCU_STATUS, 0x704.
    McuStatus,
    /// An address space, 0x2400 + 0x40 n.
    As(u8, AsReg, Half),
    /// CSF_GPU_LATEST_FLUSH_ID, 0x10000.
    LatestFlushId,
    /// CSF_DOORBELL, 0x80000 + 0x10000 n, write only.
    Doorbell(u8),
}

/// Bytes from one address space's registers to the next's.
const AS_STRIDE: u32 = 0x40;
/// MMU_AS_BASE.
const AS_BASE: u32 = 0x2400;
/// The first doorbell page.
const DOORBELL_BASE: u32 = 0x8_0000;
/// Bytes from one doorbell to the next.
const DOORBELL_STRIDE: u32 = 0x1_0000;
/// Doorbell pages: what the window holds, and no more than CS_CONFIG has bits for.
pub const DOORBELLS: u32 = (WINDOW - DOORBELL_BASE) / DOORBELL_STRIDE;

impl Reg {
    /// The register at a byte offset, for a GPU with `cores` shader cores. `None` where there is none.
    #[must_use]
    pub fn decode(offset: u32, cores: u32) -> Option<Self> {
        if offset % 4 != 0 || offset >= WINDOW {
            return None;
        }
        let half = Half::at(offset);
        Some(match offset {
            0x00 => Reg::Fixed(model::GPU_ID),
            0x04 => Reg::Fixed(model::L2_FEATURES),
            0x08 => Reg::Fixed(model::CORE_FEATURES),
            0x0c => Reg::Fixed(model::TILER_FEATURES),
            0x10 => Reg::Fixed(model::MEM_FEATURES),
            0x14 => Reg::Fixed(model::mmu_features(model::VA_BITS)),
            0x18 => Reg::Fixed(model::AS_PRESENT),
            0x1c => Reg::Fixed(model::CSF_ID),
            0x20..0x30 => Reg::Irq(Line::Gpu, irq_reg(offset)),
            0x30 => Reg::GpuCommand,
            0x34 => Reg::GpuStatus,
            0x3c => Reg::GpuFaultStatus,
            0x40 | 0x44 => Reg::GpuFaultAddress(half),
            0x48 => Reg::L2Config,
            0x60 | 0x64 => Reg::Fixed(half.of(model::GPU_FEATURES)),
            0x88 | 0x8c => Reg::TimestampOffset(half),
            0x90 | 0x94 => Reg::CycleCount(half),
            0x98 | 0x9c => Reg::Timestamp(half),
            0xa0 => Reg::Fixed(THREADS_PER_CORE),
            0xa4 | 0xa8 => Reg::Fixed(WORKGROUP_THREADS),
            0xac => Reg::Fixed(model::THREAD_FEATURES),
            0xb0..0xc0 => Reg::Fixed(model::TEXTURE_FEATURES),
            0x100..0x280 => {
                let register = match (offset - 0x100) / 0x40 {
                    0 => PowerReg::Present,
                    1 => PowerReg::Ready,
                    2 => PowerReg::PowerOn,
                    3 => PowerReg::PowerOff,
                    4 => PowerReg::Transition,
                    _ => PowerReg::Active,
                };
                let domain = match offset % 0x40 {
                    0x00 | 0x04 => Domain::Shader,
                    0x10 | 0x14 => Domain::Tiler,
                    0x20 | 0x24 => Domain::L2,
                    _ => return None,
                };
                if register == PowerReg::Present {
                    return Some(Reg::Fixed(half.of(domain.present(cores))));
                }
                Reg::Power(domain, register, half)
            }
            0x280 => Reg::Fixed(model::GPU_REV),
            0x300 => Reg::Fixed(model::COHERENCY_FEATURES),
            0x304 => Reg::CoherencyProtocol,
            0x700 => Reg::McuControl,
            0x704 => Reg::McuStatus,
            0x1000..0x1010 => Reg::Irq(Line::Job, irq_reg(offset)),
            0x2000..0x2010 => Reg::Irq(Line::Mmu, irq_reg(offset)),
            AS_BASE..0x2c00 => {
                let space = ((offset - AS_BASE) / AS_STRIDE) as u8;
                if model::AS_PRESENT >> space & 1 == 0 {
                    return None;
                }
                let register = match offset % AS_STRIDE {
                    0x00 | 0x04 => AsReg::TransTab,
                    0x08 | 0x0c => AsReg::MemAttr,
                    0x10 | 0x14 => AsReg::LockAddr,
                    0x18 => return Some(Reg::As(space, AsReg::Command, Half::Low)),
                    0x1c => return Some(Reg::As(space, AsReg::FaultStatus, Half::Low)),
                    0x20 | 0x24 => AsReg::FaultAddress,
                    0x28 => AsReg::Status,
                    0x30 | 0x34 => AsReg::TransCfg,
                    0x38 | 0x3c => AsReg::FaultExtra,
                    _ => return None,
                };
                Reg::As(space, register, half)
            }
            0x1_0000 => Reg::LatestFlushId,
            DOORBELL_BASE.. if offset % DOORBELL_STRIDE == 0 => {
                Reg::Doorbell(((offset - DOORBELL_BASE) / DOORBELL_STRIDE) as u8)
            }
            _ => return None,
        })
    }

    /// Whether the register gives a value.
    #[must_use]
    pub fn readable(self) -> bool {
        !matches!(
            self,
            Reg::GpuCommand
                | Reg::Doorbell(_)
                | Reg::Irq(_, IrqReg::Clear)
                | Reg::Power(_, PowerReg::PowerOn | PowerReg::PowerOff, _)
                | Reg::As(_, AsReg::Command, _)
        )
    }

    /// Whether the register takes a value.
    #[must_use]
    pub fn writable(self) -> bool {
        match self {
            Reg::Irq(_, register) => register != IrqReg::Stat,
            Reg::GpuCommand
            | Reg::L2Config
            | Reg::TimestampOffset(_)
            | Reg::CoherencyProtocol
            | Reg::McuControl
            | Reg::Doorbell(_) => true,
            Reg::Power(_, register, _) => {
                matches!(register, PowerReg::PowerOn | PowerReg::PowerOff)
            }
            Reg::As(_, register, _) => matches!(
                register,
                AsReg::TransTab
                    | AsReg::MemAttr
                    | AsReg::LockAddr
                    | AsReg::Command
                    | AsReg::TransCfg
            ),
            _ => false,
        }
    }
}

fn irq_reg(offset: u32) -> IrqReg {
    match offset & 0xc {
        0 => IrqReg::RawStat,
        4 => IrqReg::Clear,
        8 => IrqReg::Mask,
        _ => IrqReg::Stat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_that_of_the_headers() {
        let decode = |offset| Reg::decode(offset, 4);
        for (offset, reg) in [
            (0x0, Reg::Fixed(0xa867_0000)),
            (0x14, Reg::Fixed(0x2830)),
            (0x24, Reg::Irq(Line::Gpu, IrqReg::Clear)),
            (0x30, Reg::GpuCommand),
            (0xa0, Reg::Fixed(THREADS_PER_CORE)),
            (0xbc, Reg::Fixed(0xc1ff_ff9e)),
            (0x100, Reg::Fixed(0x50005)),
            (0x104, Reg::Fixed(0)),
            (0x120, Reg::Fixed(1)),
            (0x160, Reg::Power(Domain::L2, PowerReg::Ready, Half::Low)),
            (
                0x194,
                Reg::Power(Domain::Tiler, PowerReg::PowerOn, Half::High),
            ),
            (0x1e0, Reg::Power(Domain::L2, PowerReg::PowerOff, Half::Low)),
            (
                0x200,
                Reg::Power(Domain::Shader, PowerReg::Transition, Half::Low),
            ),
            (0x260, Reg::Power(Domain::L2, PowerReg::Active, Half::Low)),
            (0x704, Reg::McuStatus),
            (0x100c, Reg::Irq(Line::Job, IrqReg::Stat)),
            (0x2008, Reg::Irq(Line::Mmu, IrqReg::Mask)),
            (0x2418, Reg::As(0, AsReg::Command, Half::Low)),
            (0x2474, Reg::As(1, AsReg::TransCfg, Half::High)),
            (0x25e4, Reg::As(7, AsReg::FaultAddress, Half::High)),
            (0x10000, Reg::LatestFlushId),
            (0x80000, Reg::Doorbell(0)),
            (0x1f_0000, Reg::Doorbell(23)),
        ] {
            assert_eq!(decode(offset), Some(reg), "{offset:#x}");
        }
        // Not aligned, gaps, address spaces that are not there, beyond the window.
        for offset in [
            2, 0x38, 0x50, 0x130, 0x27c, 0x2c0, 0x708, 0x1010, 0x2600, 0x242c,
        ] {
            assert_eq!(decode(offset), None, "{offset:#x}");
        }
        for offset in [0x10004, 0x80004, WINDOW, u32::MAX - 3] {
            assert_eq!(decode(offset), None, "{offset:#x}");
        }
    }

    #[test]
    fn commands_are_those_of_the_header() {
        assert_eq!(GpuCommand::from_value(0x101), Some(GpuCommand::SoftReset));
        assert_eq!(GpuCommand::from_value(0x201), Some(GpuCommand::HardReset));
        let flush = GpuCommand::Flush {
            l2: 3,
            lsc: 3,
            other: 2,
        };
        assert_eq!(GpuCommand::from_value(0x23304), Some(flush));
        for value in [0, 1, 0x301, 0x404, 5, u32::MAX] {
            assert_eq!(GpuCommand::from_value(value), None, "{value:#x}");
        }
    }

    #[test]
    fn what_is_read_only_takes_nothing() {
        let reg = |offset| Reg::decode(offset, 4).unwrap();
        assert!(reg(0).readable() && !reg(0).writable());
        assert!(!reg(0x30).readable() && reg(0x30).writable());
        assert!(!reg(0x100c).writable() && reg(0x1008).writable());
        assert!(!reg(0x241c).writable() && reg(0x2430).writable());
        assert!(!reg(0x80000).readable());
    }
}
