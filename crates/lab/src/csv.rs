//! A record's samples as comma-separated values (RFC 4180): one line each, for those who count otherwise.
//!
//! Invariant: every sample of every row, in the order in which they came.
//! Not here: medians, machine, parameters; the JSON record has them.
use crate::record::Record;

/// The whole file.
pub fn of(r: &Record) -> String {
    let mut w = csv::Writer::from_writer(vec![]);
    let mut put = |line: &[&str]| {
        let done = w.write_record(line);
        debug_assert!(done.is_ok(), "memory takes any line of the same length");
    };
    put(&[
        "workload", "case", "backend", "metric", "unit", "round", "sample", "value",
    ]);
    for row in &r.results {
        for (round, samples) in row.samples.iter().enumerate() {
            for (i, v) in samples.iter().enumerate() {
                let (case, backend, metric) = (&row.case, &row.backend, &row.metric);
                let numbers = [round.to_string(), i.to_string(), v.to_string()];
                let [round, i, v] = &numbers;
                put(&[&r.workload, case, backend, metric, &row.unit, round, i, v]);
            }
        }
    }
    String::from_utf8_lossy(&w.into_inner().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_has_its_line() {
        let mut r = Record::new("t");
        r.row("a, b", "x", ("m", "s", None), &[vec![1.5, 2.0], vec![3.0]]);
        let expected = "workload,case,backend,metric,unit,round,sample,value\n\
                        t,\"a, b\",x,m,s,0,0,1.5\nt,\"a, b\",x,m,s,0,1,2\nt,\"a, b\",x,m,s,1,0,3\n";
        assert_eq!(of(&r), expected);
    }
}
