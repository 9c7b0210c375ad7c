//! Matrix products, planned and cut into short jobs.
