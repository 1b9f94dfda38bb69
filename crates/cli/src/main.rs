//! `byway`: runs programs with their pipes carried through shared memory, and tells what a machine allows.
//!
//! Invariant: each room of this crate uses only rooms above it in the list below; a test sees to it (order.rs).
//! Not here: the pipes themselves; this program only prepares and starts.

// The rooms, the lowest first:
//
//   tell        a line on standard error
//   output      files that an option names
//   limit       a limit of file sizes as an error
//   given       what this process was given and passes on
//   child       the command while it runs
//   guard       the service after a domain was cut off
//   executable  a command's file
//   settings    what a run is told: options, environment, files
//   rewrite     objects, rewritten into a cache
//   library     the preload library: its bytes, its file, its name
//   members     the runs that share a domain
//   holders     the processes that hold a FIFO
//   caller      this process as a user of a domain
//   account     what one channel has carried
//   tally       how often FIFOs were opened, and by whom
//   fifo        which FIFOs may be carried
//   domain      a run's domain: made, described, removed
//   explain     what a run's pipes have carried
//   service     what a run does for its domain
//   prepare     all that a run needs before it starts
//   shim        the program that a script stands for
//   program     whether a program can take part
//   run         the command `run`
//   stat        the commands `stat` and `doctor --audit`
//   top         the command `top`
//   object      the command `doctor --object`
//   cached      the command `doctor --cache`
//   config      the command `config`
//   doctor      the command `doctor`
//   report      the command `report`
//   bench       the commands `bench` and `demo`
//   diagnosis   the command `doctor --report`
//   completions the command `completions`
//   manual      the manual pages
//   help        the command `help`
//   flags       the command line, which starts all of them
mod account;
mod bench;
mod cached;
mod caller;
mod child;
mod completions;
mod config;
mod diagnosis;
mod doctor;
mod domain;
mod executable;
mod explain;
mod fifo;
mod flags;
mod given;
mod guard;
mod help;
mod holders;
mod library;
mod limit;
mod manual;
mod members;
mod object;
#[cfg(test)]
mod order;
mod output;
mod prepare;
mod program;
mod report;
mod rewrite;
mod run;
mod service;
mod settings;
mod shim;
mod stat;
mod tally;
mod tell;
mod top;

fn main() {
    domain::start_clock();
    child::end(flags::main());
}
