//! The workloads of the lab, each made from what its benchmark was told.
//!
//! Invariant: what is made has not begun: nothing is measured and no file is made.
//! Not here: the words (flags.rs, net.rs), the order in which all of them are run (seeds.rs).
use super::flags::Wanted;
use super::net;
use byway_lab::mbuf::Mbuf;
use byway_lab::native::Native;
use byway_lab::net::ftp::Ftp;
use byway_lab::net::netperf::workload::Netperf;
use byway_lab::net::netpipe::workload::Netpipe;
use byway_lab::pairs::pipeflex::Options;
use byway_lab::pairs::start::Byway;
use byway_lab::pairs::{self, Bench, Pairs};
use byway_lab::services::Services;
use byway_lab::workload::Workload;
use byway_lab::workload::pipeline::Pipelines;
use byway_lab::workload::start::Starts;
use std::path::PathBuf;

/// A workload, or a sentence: why it cannot be made.
pub type Made = Result<Box<dyn Workload>, String>;

/// This program, which is what a workload starts.
pub fn itself() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("it cannot find itself: {e}"))
}

pub fn mbuf(w: &Wanted) -> Made {
    Ok(Box::new(Mbuf::new(w.places()?, w.quick)))
}

pub fn between(w: &Wanted, bench: Bench, flex: Option<Options>) -> Made {
    let byway = Byway::new(&itself()?);
    let mut plan = pairs::Plan::new(w.places()?, w.quick);
    plan.flex = flex.unwrap_or(plan.flex);
    plan.pipes = byway.pipes();
    Ok(Box::new(Pairs::new(bench, plan, byway)))
}

pub fn native(w: &Wanted) -> Made {
    Ok(Box::new(Native::new(w.places()?, w.quick)))
}

pub fn lines(w: &Wanted, size: u64) -> Made {
    let byway = itself()?;
    Ok(Box::new(Pipelines::new(&byway, w.places()?, size, w.quick)))
}

pub fn starts(w: &Wanted) -> Made {
    let byway = itself()?;
    Ok(Box::new(Starts::new(&byway, w.places()?, w.quick)))
}

pub fn services(w: &Wanted) -> Made {
    let byway = itself()?;
    Ok(Box::new(Services::new(&byway, w.places()?, w.quick)))
}

pub fn originals(w: &Wanted) -> Made {
    let byway = itself()?;
    Ok(Box::new(Services::originals(&byway, w.places()?, w.quick)))
}

pub fn netpipe(w: &Wanted) -> Made {
    let options = byway_lab::net::netpipe::Options::usual(w.quick);
    let place = net::here(w, &itself()?)?;
    Ok(Box::new(Netpipe::new(place, options, w.quick, &[])?))
}

pub fn netperf(w: &Wanted) -> Made {
    let options = byway_lab::net::netperf::Options::usual(w.quick);
    let place = net::here(w, &itself()?)?;
    Ok(Box::new(Netperf::new(place, options, w.quick, &[])?))
}

pub fn ftp(w: &Wanted) -> Made {
    let place = net::here(w, &itself()?)?;
    Ok(Box::new(Ftp::new(
        place,
        net::megabytes(w.quick),
        w.quick,
        &[],
    )?))
}
