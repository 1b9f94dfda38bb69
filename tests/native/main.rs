//! The native library from outside: threads, forked children, unrelated programs, peers that are killed.
//!
//! | file | what must hold |
//! |---|---|
//! | stream.rs | every byte once and in order, whoever writes and reads, waiting or not |
//! | asleep.rs | a reader asleep in read(2): what wakes it, signal handlers, memory |
//! | timer.rs | the timer that sleepers keep: of which processes, and that the program may close it |
//! | pass_through.rs | a pipe that has long only woken, and what comes then |
//! | fifo.rs | names, lives, unrelated processes |
//! | buffered.rs | what a reader has read ahead comes next, whatever others do |
//! | death.rs | a killed peer is the end of the stream or a broken pipe, never a hang |
//! | records.rs | boundaries, whole records for each of many receivers, sizes from 0 to megabytes |
//! | full.rs | where nothing more fits, grants or records, the descriptor says so: of a FIFO as of a pipe |
//! | grants.rs | no copy, one buffer for several, nothing lost with those who die |
//! | duplex.rs | two pipes as one: both ways, each with an end of its own |
//! | events.rs | an event queue tells of a native pipe what it tells of the kernel's: the states that the seed's author checked with kqueue |
//! | watching.rs | an event queue among threads, other queues, forked children; streams that are read by what it tells |
//! | uncarried.rs | without shared memory: the same interface over the kernel's pipes, and errors that say what to do |
//! | rest.rs | what an idle pipe costs, and what stays behind |
//!
//! ends.rs: pipes of the kernel's and ours, for one body. A peer of another program is this program again: `peer` plays
//! the role that its environment names.
mod asleep;
mod buffered;
mod death;
mod duplex;
mod ends;
mod events;
mod fifo;
mod full;
mod grants;
mod pass_through;
mod peer;
mod records;
mod rest;
mod stream;
mod timer;
mod uncarried;
mod watching;
