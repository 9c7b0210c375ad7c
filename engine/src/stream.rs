//! Command streams for products.
