//! What moves bytes, and how its time is taken.
//!
//! Not here: statistics, tables.
pub mod pingpong;
pub mod pipeline;
