//! The driver's sequences against the registers.
