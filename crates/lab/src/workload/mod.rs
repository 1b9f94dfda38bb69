//! What a workload is to those who run it: its cases, how long they take, how one is measured and shown.
//!
//! Invariant: all of a workload goes through the runner, so every workload ends by the same rules and has the same record.
//! Not here: statistics, progress, the command line (which takes any `Workload`).
pub mod pingpong;
pub mod pipeline;
pub mod shell;
pub mod start;

use crate::child::Failure;
use crate::record::{Parameters, Record};
use crate::runner::Limits;

pub trait Workload {
    /// As the command line and the record have it.
    fn name(&self) -> &'static str;
    /// Ids of all cases, in the order of the source.
    fn cases(&self) -> Vec<String>;
    /// CPUs that it uses.
    fn cpus(&self) -> Vec<usize>;
    /// What defines it, besides the limits.
    fn parameters(&self) -> Parameters;
    /// Its limits if nobody wants others; the time is that of all cases together.
    fn usual(&self) -> Limits;
    /// Which share of the time a case should have.
    fn weight(&self, _case: &str) -> f64 {
        1.0
    }
    /// A program that it needs and that is not here: a sentence with the remedy.
    fn missing(&self) -> Option<String> {
        None
    }
    /// Once, before anything is measured: looks for the programs and libraries that these cases compare with. What is here
    /// may be noted. What is not here is returned, a sentence each, with the remedy; its backends have no rows.
    ///
    /// # Errors
    /// None of the cases can be measured.
    fn look(&mut self, _record: &mut Record, _cases: &[String]) -> Result<Vec<String>, Failure> {
        Ok(vec![])
    }
    /// Once, before the cases: what the harness takes, notes.
    ///
    /// # Errors
    /// The machine cannot do it.
    fn prepare(&mut self, _record: &mut Record, _cases: &[String]) -> Result<(), Failure> {
        Ok(())
    }
    /// Measures a case within `limits` and adds it to the record; `tick` is told which part of it is done.
    ///
    /// # Errors
    /// The first run that failed.
    fn measure(
        &mut self,
        record: &mut Record,
        case: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure>;
    /// What stands above the lines of the cases.
    fn heading(&self) -> Vec<String>;
    /// A case, as soon as it is measured.
    fn lines(&self, record: &Record, case: &str) -> Vec<String>;
    /// What is shown, and noted, when all is measured.
    fn tables(&self, _record: &mut Record, _cases: &[String]) -> Vec<String> {
        vec![]
    }
}
