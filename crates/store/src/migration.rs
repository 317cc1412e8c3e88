//! Which schema steps a database lacks.

use crate::{Result, StoreError};

/// The SQL that leads from the schema before to this one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) schema: u32,
    pub(crate) sql: &'static str,
}

/// The steps that a database of schema `found` lacks; 0 is an empty one. `steps` are dense from 1.
pub(crate) fn missing(steps: &'static [Step], found: i64) -> Result<&'static [Step]> {
    let known = steps.last().map_or(0, |step| step.schema);
    let found = u32::try_from(found)
        .map_err(|_| StoreError::row("schema", "version", format_args!("{found} is no version")))?;
    steps.get(found as usize..).ok_or(StoreError::Newer { found, known })
}

/// The steps that lead from nothing to schema `schema`.
pub(crate) fn until(steps: &'static [Step], schema: u32) -> Result<&'static [Step]> {
    let known = steps.last().map_or(0, |step| step.schema);
    steps.get(..schema as usize).ok_or(StoreError::Newer { found: schema, known })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The newest schema.
    const LAST: u32 = 6;

    #[test]
    fn steps_are_dense_and_alike() {
        for steps in [crate::sqlite::STEPS, crate::postgres::STEPS] {
            let schemas: Vec<u32> = steps.iter().map(|step| step.schema).collect();
            assert_eq!(schemas, (1..=LAST).collect::<Vec<_>>());
        }
    }

    #[test]
    fn finds_what_is_missing() {
        let steps = crate::sqlite::STEPS;
        let rest =
            |found| missing(steps, found).map(|steps| steps.iter().map(|s| s.schema).collect::<Vec<_>>());
        assert_eq!(rest(0).unwrap(), (1..=LAST).collect::<Vec<_>>());
        assert_eq!(rest(i64::from(LAST) - 1).unwrap(), [LAST]);
        assert_eq!(rest(LAST.into()).unwrap(), [0; 0]);
        let newer = LAST + 1;
        assert!(
            matches!(rest(newer.into()), Err(StoreError::Newer { found, known: LAST }) if found == newer)
        );
        assert!(matches!(rest(-1), Err(StoreError::Row { .. })));
    }
}
