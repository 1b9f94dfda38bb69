//! A record as text, in a file, and back.
//!
//! Invariant: what is written can be read again without loss; a layout that is not known is refused, never guessed.
//! Not here: which fields there are (mod.rs).
use super::{Record, SCHEMA};
use crate::lines::Lines;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;

impl Record {
    /// As text: an object on each line of a list.
    pub fn text(&self) -> String {
        let mut out = vec![];
        let mut s = serde_json::Serializer::with_formatter(&mut out, Lines::default());
        // Strings, numbers and lists of our own cannot fail to be written to memory.
        let done = self.serialize(&mut s);
        debug_assert!(done.is_ok());
        out.push(b'\n');
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Writes the document to `to`, `-` being standard output.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, to: &Path) -> io::Result<()> {
        if to.as_os_str() == "-" {
            io::stdout().write_all(self.text().as_bytes())
        } else {
            std::fs::write(to, self.text())
        }
    }

    /// Reads a record of schema 1 or 2.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or is none.
    pub fn read(from: &Path) -> Result<Record, String> {
        let name = from.display();
        let text = std::fs::read_to_string(from).map_err(|e| format!("{name}: {e}"))?;
        Record::of(&text).map_err(|e| format!("{name}: {e}"))
    }

    /// The same from its text.
    ///
    /// # Errors
    /// A sentence: it is none.
    pub fn of(text: &str) -> Result<Record, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let no = |e: serde_json::Error| {
            format!("not a record of `byway bench`: {e}; make one with --json FILE")
        };
        let head: Head = serde_json::from_str(text).map_err(no)?;
        if !(1..=SCHEMA).contains(&head.schema) {
            return Err(format!(
                "a record of schema {}, and this byway reads 1 to {SCHEMA}; read it with the byway that made it",
                head.schema
            ));
        }
        serde_json::from_str(text).map_err(no)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::sample;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let r = sample();
        let text = r.text();
        let again = Record::of(&text).unwrap();
        assert_eq!(again.text(), text);
        assert_eq!(again.results[0].samples, r.results[0].samples);
        // A row is a line.
        let rows = text.lines().filter(|l| l.contains("\"samples\"")).count();
        assert_eq!(rows, r.results.len());
    }

    #[test]
    fn what_is_no_record_is_told() {
        assert!(Record::of("{}").unwrap_err().contains("--json FILE"));
        let e = Record::of(&sample().text().replace("\"schema\": 2", "\"schema\": 3")).unwrap_err();
        assert!(e.contains("schema 3") && e.contains("1 to 2"));
        assert!(Record::of("{\"schema\": 2}").is_err());
    }

    #[test]
    fn records_of_schema_1_are_read() {
        for name in [
            "tests/data/old-record.json",
            "../../runs/2026-11-21-mbuf/raw.json",
        ] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            let r = Record::read(&path).unwrap();
            assert!(r.schema == 1 && !r.results.is_empty() && r.results[0].samples.is_empty());
            assert!(r.parameters.is_empty());
        }
    }
}
