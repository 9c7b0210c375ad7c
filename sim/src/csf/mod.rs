//! The command-stream processor: registers, scoreboards, waits, RUN_COMPUTE.
