//! The lab: what is measured, how, and the record of it.
//!
//! Invariant: the sides of a ratio run in turn on one machine, and every figure carries its spread and its count.
//! Not here: argument parsing, colours, the preload library (programs are started with it, never linked to it).
pub mod apart;
pub mod child;
pub mod compare;
pub mod csv;
mod domain;
pub mod interrupt;
mod lines;
pub mod machine;
pub mod mbuf;
mod migrations;
pub mod native;
pub mod net;
pub mod noise;
pub mod pairs;
pub mod program;
pub mod published;
pub mod record;
pub mod report;
mod ring;
pub mod runner;
pub mod scratch;
mod server;
pub mod services;
mod shared;
pub mod smt;
mod spin;
pub mod stats;
pub mod table;
pub mod workload;
