//! The register file of a queue, with what is defined in it.

use mali_isa::csf::{KERNEL_REGISTERS, REGISTERS, Reg32, Reg64};

use super::exception::Cause;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Undefined,
    Defined,
    /// A load on this scoreboard entry will define it.
    Pending(u8),
}

/// First of the registers that belong to the kernel.
const FIRST_KERNEL_REGISTER: u8 = REGISTERS - KERNEL_REGISTERS;

#[derive(Clone, Debug)]
pub(super) struct Registers {
    values: [u32; REGISTERS as usize],
    states: [State; REGISTERS as usize],
}

impl Registers {
    pub(super) fn new() -> Self {
        Self {
            values: [0; REGISTERS as usize],
            states: [State::Undefined; REGISTERS as usize],
        }
    }

    fn index(register: u16, kernel: bool) -> Result<usize, Cause> {
        match u8::try_from(register) {
            Ok(r) if r >= REGISTERS => Err(Cause::NoRegister(register)),
            Ok(r) if r >= FIRST_KERNEL_REGISTER && !kernel => Err(Cause::KernelRegister(r)),
            Ok(r) => Ok(r.into()),
            Err(_) => Err(Cause::NoRegister(register)),
        }
    }

    /// Whether the register may be used at all, and no load is in flight for it.
    fn settled(&self, register: u16, kernel: bool) -> Result<usize, Cause> {
        let index = Self::index(register, kernel)?;
        match self.states[index] {
            State::Pending(entry) => Err(Cause::PendingRegister {
                register: index as u8,
                entry,
            }),
            _ => Ok(index),
        }
    }

    pub(super) fn get(&self, register: u16, kernel: bool) -> Result<u32, Cause> {
        let index = self.settled(register, kernel)?;
        match self.states[index] {
            State::Defined => Ok(self.values[index]),
            _ => Err(Cause::UndefinedRegister(index as u8)),
        }
    }

    pub(super) fn get32(&self, register: Reg32, kernel: bool) -> Result<u32, Cause> {
        self.get(register.0.into(), kernel)
    }

    pub(super) fn get64(&self, register: Reg64, kernel: bool) -> Result<u64, Cause> {
        let low = self.get32(register.low(), kernel)?;
        Ok(u64::from(self.get32(register.high(), kernel)?) << 32 | u64::from(low))
    }

    pub(super) fn set(&mut self, register: u16, value: u32, kernel: bool) -> Result<(), Cause> {
        let index = self.settled(register, kernel)?;
        self.values[index] = value;
        self.states[index] = State::Defined;
        Ok(())
    }

    pub(super) fn set32(&mut self, register: Reg32, value: u32, kernel: bool) -> Result<(), Cause> {
        self.set(register.0.into(), value, kernel)
    }

    pub(super) fn set64(&mut self, register: Reg64, value: u64, kernel: bool) -> Result<(), Cause> {
        self.set32(register.low(), value as u32, kernel)?;
        self.set32(register.high(), (value >> 32) as u32, kernel)
    }

    /// A value that arrives when the entry is waited for.
    pub(super) fn load(
        &mut self,
        register: u16,
        value: u32,
        entry: u8,
        kernel: bool,
    ) -> Result<(), Cause> {
        let index = self.settled(register, kernel)?;
        self.values[index] = value;
        self.states[index] = State::Pending(entry);
        Ok(())
    }

    /// Loads have arrived.
    pub(super) fn define(&mut self, registers: u128) {
        for (index, state) in self.states.iter_mut().enumerate() {
            if registers >> index & 1 != 0 {
                *state = State::Defined;
            }
        }
    }

    /// Each register's value with its state as a number: `None` undefined, 1 defined, more a load on entry `state - 2`.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u32, Option<u8>)> + '_ {
        self.values
            .iter()
            .zip(&self.states)
            .map(|(value, state)| match state {
                State::Undefined => (0, None),
                State::Defined => (*value, Some(1)),
                State::Pending(entry) => (*value, Some(2 + entry)),
            })
    }

    /// The opposite of [`Registers::parts`], for a register that exists.
    pub(super) fn set_part(&mut self, register: u8, value: u32, state: u8) {
        self.values[usize::from(register)] = value;
        self.states[usize::from(register)] = match state {
            0 => State::Undefined,
            1 => State::Defined,
            more => State::Pending(more - 2),
        };
    }

    /// Value and whether it is defined, for reports.
    pub(super) fn peek(&self, register: u8) -> Option<u32> {
        let index = usize::from(register);
        (self.states.get(index) == Some(&State::Defined)).then(|| self.values[index])
    }
}
