//! What a node counts and times, read from its `/metrics`.

use std::collections::BTreeMap;

/// The counters, gauges and sums of a node at some time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meters {
    values: BTreeMap<String, f64>,
}

/// How long a flow took for one of its steps, on average.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// The node.
    pub node: String,
    /// The flow.
    pub flow: String,
    /// The step; the last goes on until the flow's durable end.
    pub step: String,
    /// How often.
    pub count: u64,
    /// The mean, in seconds.
    pub mean_s: f64,
}

/// How a node made things durable.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Commits {
    /// Batches.
    pub batches: u64,
    /// Time for a batch, in seconds, on average.
    pub mean_s: f64,
    /// Units of flows in a batch, on average.
    pub units: f64,
    /// Changes in a batch, on average.
    pub writes: f64,
}

impl Meters {
    /// Reads OpenMetrics text. Lines of another form are left out: a newer node may say more.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
        Self { values: lines.filter_map(value).collect() }
    }

    /// A value without labels; 0 when the node has none of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        let value = self.values.get(&format!("{name}{{}}")).or_else(|| self.values.get(name));
        value.copied().unwrap_or(0.0)
    }

    /// How much each value has grown since an earlier reading of the same process.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let grown = |(name, value): (&String, &f64)| {
            (name.clone(), value - earlier.values.get(name).copied().unwrap_or(0.0))
        };
        Self { values: self.values.iter().map(grown).collect() }
    }

    /// The steps that flows took, with `node` as the node's name; by flow, in the order in which flows take them.
    #[must_use]
    pub fn steps(&self, node: &str) -> Vec<StepTime> {
        const SUM: &str = "tally_flow_step_seconds_sum";
        const COUNT: &str = "tally_flow_step_seconds_count";
        let step = |(name, sum): (&String, &f64)| {
            let labels = name.strip_prefix(SUM)?;
            let count = *self.values.get(&format!("{COUNT}{labels}"))?;
            if count < 1.0 {
                return None;
            }
            Some(StepTime {
                node: node.to_owned(),
                flow: label(labels, "flow")?,
                step: label(labels, "step")?,
                count: count as u64,
                mean_s: sum / count,
            })
        };
        let mut steps: Vec<StepTime> = self.values.iter().filter_map(step).collect();
        steps.sort_by(|a, b| (&a.flow, place(&a.step), &a.step).cmp(&(&b.flow, place(&b.step), &b.step)));
        steps
    }

    /// How batches were made durable.
    #[must_use]
    pub fn commits(&self) -> Commits {
        let batches = self.get("tally_node_commit_seconds_count");
        if batches < 1.0 {
            return Commits::default();
        }
        Commits {
            batches: batches as u64,
            mean_s: self.get("tally_node_commit_seconds_sum") / batches,
            units: self.get("tally_node_commit_units_sum") / batches,
            writes: self.get("tally_node_store_writes_total") / batches,
        }
    }
}

/// The order in which shipped flows take steps; a node tells them by name. Others come last.
const ORDER: [&str; 8] =
    ["Building", "Verifying", "Proposing", "Committing", "Signing", "Notarising", "Recording", "Sending"];

fn place(step: &str) -> usize {
    ORDER.iter().position(|known| *known == step).unwrap_or(ORDER.len())
}

/// The value of a label in `{a="x",b="y"}`.
fn label(labels: &str, name: &str) -> Option<String> {
    let rest = labels.strip_prefix('{')?;
    let mut rest = rest.strip_suffix('}')?;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (at, '"') => break at,
                (_, other) => value.push(other),
            }
        };
        if key == name {
            return Some(value);
        }
        rest = after.get(end + 1..)?.strip_prefix(',')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_serves_is_read() {
        let node = tally_node::Meters::unread();
        let registry = node.registry();
        let labels = [("flow", "Cash\"Pay"), ("step", "Sub / Building")];
        let steps = registry.histogram("tally_flow_step_seconds", "Steps.", &labels, &[0.5, 1.0]).unwrap();
        steps.observe(0.25);
        let before = Meters::parse(&registry.render());
        for seconds in [0.5, 1.0] {
            steps.observe(seconds);
        }
        let after = Meters::parse(&registry.render());
        assert_eq!(
            after.since(&before).steps("A"),
            [StepTime {
                node: "A".into(),
                flow: "Cash\"Pay".into(),
                step: "Sub / Building".into(),
                count: 2,
                mean_s: 0.75,
            }]
        );
        assert_eq!(after.steps("A")[0].count, 3);
        assert_eq!(after.commits(), Commits::default());
        // The names that this module reads are those that a node has.
        for name in [
            "tally_node_commit_seconds_sum",
            "tally_node_commit_units_sum",
            "tally_node_store_writes_total",
            "tally_flow_completed_flows_total",
        ] {
            assert!(registry.render().contains(name), "{name}");
        }
    }

    #[test]
    fn lines_of_another_form_are_left_out() {
        let meters = Meters::parse("a 1\nb{} 2\nc{x=\"y\"} three\n\nnothing\n# a 7\n");
        assert_eq!(
            (meters.get("a"), meters.get("b"), meters.get("c"), meters.get("d")),
            (1.0, 2.0, 0.0, 0.0)
        );
        assert_eq!(label("{a=\"1\"}", "b"), None);
        assert_eq!(label("{a=\"1", "a"), None);
        assert_eq!(label("{a=\"1\",b=\"x\\\\\"}", "b").as_deref(), Some("x\\"));
    }
}
