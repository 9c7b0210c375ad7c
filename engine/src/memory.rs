//! GPU addresses and buffer objects.
