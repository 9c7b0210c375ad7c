//! Injection of failures, by the modes of the hang catalogue.
