//! The driver played against the firmware.
