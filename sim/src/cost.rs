//! Cycle accounting: what each instruction costs on which unit.
