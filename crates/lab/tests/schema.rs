//! docs/record.schema.json against records as workloads make them, and against what must not be one.
use boon::{Compiler, SchemaIndex, Schemas};
use byway_lab::mbuf::Mbuf;
use byway_lab::noise::{self, Watch};
use byway_lab::record::Record;
use byway_lab::runner::{Ended, Limits};
use byway_lab::workload::Workload;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

fn schema() -> (Schemas, SchemaIndex) {
    let mut schemas = Schemas::new();
    let path = file("docs/record.schema.json").canonicalize().unwrap();
    let index = Compiler::new()
        .compile(&path.to_string_lossy(), &mut schemas)
        .unwrap();
    (schemas, index)
}

/// A short measurement that really was.
fn measured() -> Record {
    let mut m = Mbuf::new(byway_lab::machine::allowed(), true);
    let mut r = Record::new(m.name());
    r.percentiles = vec![50.0, 99.0];
    let limits = Limits {
        time: Duration::ZERO,
        ..m.usual()
    };
    (m.plan.run, m.plan.calm) = (Duration::from_millis(2), Duration::from_millis(60));
    m.plan.burst = 8 << 20;
    r.limit(&limits);
    let mut watch = Watch::begin(&byway_lab::machine::allowed());
    let cases = ["cross".to_string(), "burst".to_string()];
    m.prepare(&mut r, &cases).unwrap();
    r.parameters = m.parameters();
    for case in &cases {
        let mut tick = |_| watch.between();
        m.measure(&mut r, case, &limits, &mut tick).unwrap();
    }
    r.noise = Some(watch.end());
    r.warnings = noise::warnings(&r);
    r
}

#[test]
fn a_record_is_as_the_schema_has_it() {
    let (schemas, index) = schema();
    let r = measured();
    assert!(!r.results.is_empty() && !r.ratios.is_empty() && !r.series.is_empty());
    assert!(!r.warnings.is_empty(), "one round is few");
    let valid = |r: &Record| {
        let value: Value = serde_json::from_str(&r.text()).unwrap();
        schemas
            .validate(&value, index)
            .map_err(|e| format!("{e:#}"))
    };
    assert_eq!(valid(&r), Ok(()));
    // What is read again is the same, also of one that was interrupted before there was anything.
    assert!(
        Record::of(&r.text()).unwrap().text() == r.text(),
        "to the last bit"
    );
    let mut partial = Record::new("t");
    partial.partial = true;
    partial.ended = r.ended[..1].to_vec();
    partial.ended[0].by = Ended::Interrupt;
    partial.ended[0].width = None;
    assert_eq!(valid(&partial), Ok(()));
}

#[test]
fn the_schema_refuses_what_is_no_record() {
    let (schemas, index) = schema();
    let good: Value = serde_json::from_str(&measured().text()).unwrap();
    let with = |pointer: &str, v: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = v;
        schemas.validate(&bad, index).is_err()
    };
    assert!(with("/schema", 1.into()));
    assert!(with("/results/0/median", "fast".into()));
    assert!(with("/results/0/better", "most".into()));
    assert!(with("/ended/0/by", "chance".into()));
    assert!(with("/ratios/0/ratio", 0.into()));
    let mut more = good.clone();
    more["extra"] = 1.into();
    assert!(schemas.validate(&more, index).is_err());
    let old = std::fs::read_to_string(file("crates/lab/tests/data/old-record.json")).unwrap();
    let old: Value = serde_json::from_str(&old).unwrap();
    assert!(schemas.validate(&old, index).is_err());
}
