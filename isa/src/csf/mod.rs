//! CSF v10 command-stream instructions.
