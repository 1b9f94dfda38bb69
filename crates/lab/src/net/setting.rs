//! What the workloads of the network have in common: where both sides are, and the ways for the bytes that are compared.
//!
//! Invariant: each of a workload's ways is one that the place has; all of a round's runs are at the same place.
//! Not here: what a run measures, and which figures it gives.
use super::Backend;
use super::place::Place;
use super::worker::Work;
use crate::child::Failure;
use crate::pairs::start::Done;
use crate::record::{Parameters, Record};
use serde_json::Value;

pub struct Setting {
    pub place: Place,
    pub backends: Vec<Backend>,
    pub quick: bool,
}

impl Setting {
    /// With those of `all` that have these names, in the order of `all`; with all if there is no name.
    ///
    /// # Errors
    /// A sentence: one is not there.
    pub fn new(
        place: Place,
        all: &[Backend],
        names: &[String],
        quick: bool,
    ) -> Result<Setting, String> {
        if let Some(n) = names.iter().find(|n| !all.iter().any(|b| b.name == **n)) {
            let there: Vec<_> = all.iter().map(|b| b.name).collect();
            return Err(format!(
                "there is no backend {n} here; there are: {}",
                there.join(" ")
            ));
        }
        let wanted = |b: &&Backend| names.is_empty() || names.iter().any(|n| n == b.name);
        Ok(Setting {
            place,
            backends: all.iter().filter(wanted).copied().collect(),
            quick,
        })
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.backends.iter().map(|b| b.name).collect()
    }

    pub fn cpus(&self) -> Vec<usize> {
        self.place.cpus.clone()
    }

    /// All others with `over`, if it is there: places in `backends`.
    pub fn against(&self, over: &str) -> Vec<(usize, usize)> {
        let n = self.backends.len();
        let over = self.backends.iter().position(|b| b.name == over);
        let others = |o| (0..n).filter(move |&k| k != o).map(move |k| (k, o));
        over.into_iter().flat_map(others).collect()
    }

    /// A workload's own, and what they all have.
    pub fn parameters<const N: usize>(&self, own: [(&str, Value); N]) -> Parameters {
        let common = [
            ("quick", self.quick.into()),
            ("hosts", self.place.name().into()),
        ];
        let all = own.into_iter().chain(common);
        all.map(|(k, v)| (k.to_string(), v)).collect()
    }

    /// Notes, and the place. `checked` is said of runs that check what arrives in place of measuring.
    ///
    /// # Errors
    /// A sentence: the place cannot be made.
    pub fn prepare(
        &mut self,
        record: &mut Record,
        notes: &[&str],
        checked: Option<&str>,
    ) -> Result<(), Failure> {
        let notes = notes.iter().copied().chain(checked);
        record.notes.extend(notes.map(String::from));
        self.place.prepare(record)
    }

    /// One run of the backend at `k`.
    ///
    /// # Errors
    /// What went wrong, here or there.
    pub fn run(&self, k: usize, work: Work) -> Result<Done, Failure> {
        self.run_on(&self.place.cpus, k, work)
    }

    /// The same, with both sides on these CPUs where both are here.
    ///
    /// # Errors
    /// As `run`.
    pub fn run_on(&self, cpus: &[usize], k: usize, work: Work) -> Result<Done, Failure> {
        self.place.run(cpus, work, self.backends[k].carried)
    }
}
