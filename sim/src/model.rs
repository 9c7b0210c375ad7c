//! The GPU that is simulated: the values of its ID and feature registers.
//!
//! Values of an RK3588's Mali-G610 MC4. Sources: the board's boot message of the driver (id 0xa867, features L2
//! 0x7120306, tiler 0x809, memory 0x301, MMU 0x2830, AS 0xff, shader_present 0x50005) and Mesa's
//! `src/panfrost/drm-shim` for what the message does not print.
//!
//! Both fronts of the GPU read them here: the simulated driver ([`crate::kmd`]) and the registers ([`crate::hw`]).

/// Product 10.7 (architecture 10.8.6), revision as in the public captures.
pub const GPU_ID: u32 = 0xa867_0000;
/// Register GPU_REVID.
pub const GPU_REV: u32 = 0;
/// The command-stream front end's version.
pub const CSF_ID: u32 = 0x40a_0412;
/// L2_FEATURES: lines of 64 bytes.
pub const L2_FEATURES: u32 = 0x712_0306;
/// TILER_FEATURES.
pub const TILER_FEATURES: u32 = 0x809;
/// MEM_FEATURES: bit 0, the L2 slices are coherent with each other.
pub const MEM_FEATURES: u32 = 0x301;
/// THREAD_FEATURES.
pub const THREAD_FEATURES: u32 = 0x401_0000;
/// COHERENCY_FEATURES: no bus protocol keeps the GPU coherent with the CPU.
pub const COHERENCY_FEATURES: u32 = 0;
/// CORE_FEATURES.
pub const CORE_FEATURES: u32 = 0;
/// GPU_FEATURES, which architecture 10 does not have.
pub const GPU_FEATURES: u64 = 0;
/// TEXTURE_FEATURES, all four the same.
pub const TEXTURE_FEATURES: u32 = 0xc1ff_ff9e;
/// TILER_PRESENT.
pub const TILER_PRESENT: u64 = 1;
/// L2_PRESENT.
pub const L2_PRESENT: u64 = 1;
/// Address spaces; number 0 is the firmware's.
pub const AS_PRESENT: u32 = 0xff;
/// Group slots.
pub const CSG_SLOTS: u32 = 8;
/// Queues per group.
pub const CS_SLOTS: u32 = 8;
/// Width of physical addresses, bits 8 to 15 of MMU_FEATURES.
pub const PA_BITS: u32 = 0x28;
/// Width of virtual addresses, bits 0 to 7 of MMU_FEATURES.
pub const VA_BITS: u32 = 0x30;

/// MMU_FEATURES of a GPU with addresses of `va_bits`.
pub const fn mmu_features(va_bits: u32) -> u32 {
    PA_BITS << 8 | va_bits
}

/// SHADER_PRESENT of a device with `cores` shader cores.
///
/// An RK3588 has cores 0, 2, 16 and 18; more are put where the Mali-G610's other positions are.
pub const fn shader_present(cores: u32) -> u64 {
    const POSITIONS: [u32; 16] = [0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30];
    let mut mask = 0;
    let mut core = 0;
    while core < cores as usize && core < POSITIONS.len() {
        mask |= 1 << POSITIONS[core];
        core += 1;
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_has_its_four_cores() {
        assert_eq!(shader_present(4), 0x50005);
        for cores in 1..=16 {
            assert_eq!(shader_present(cores).count_ones(), cores);
        }
        assert_eq!(mmu_features(VA_BITS), 0x2830);
    }
}
