//! `byway`: runs programs with their pipes carried through shared memory, and tells what a machine allows.
//!
//! Not here: the pipes themselves; this program only prepares and starts.
mod bench;
mod caller;
mod child;
mod doctor;
mod domain;
mod executable;
mod fifo;
mod flags;
mod given;
mod guard;
mod holders;
mod library;
mod limit;
mod members;
mod object;
mod output;
mod prepare;
mod report;
mod rewrite;
mod run;
mod service;
mod settings;
mod stat;
mod tell;

fn main() {
    domain::start_clock();
    child::end(flags::main());
}
