//! Watches GPU jobs: what a fence that does not signal means and how to repair it.
