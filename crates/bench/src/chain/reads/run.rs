//! A node with a chain, and requests.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::drive::{Answers, Requests, Window, closed, open};
use super::{Load, Mix, Observer, Plan};
use crate::chain::history::{History, build};
use crate::chain::network::{Network, wait_for};
use crate::chain::outcome::{Outcome, Usage};
use crate::chain::{ChainBenchError, GENERATOR};
use crate::fact::Fact;
use crate::processes::Watch;
use crate::published::figure;

/// How often processes are looked at.
const EVERY: Duration = Duration::from_millis(100);
/// How long a node may take until it serves its chain.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests a second of the mix that are to be reached, and what is better.
const BARS: (f64, f64) = (10_000.0, 25_000.0);

/// Builds a chain, starts one node that has it, and measures everything that the plan says.
///
/// # Errors
/// [`ChainBenchError`].
pub fn run(plan: &Plan, observer: &mut impl Observer) -> Result<Vec<Outcome>, ChainBenchError> {
    let mut layout = plan.layout.clone();
    layout.followers = layout.followers.max(1);
    layout.connections = plan.connections;
    layout.timestamp = plan.history.timestamp(layout.period);
    let mut network = Network::make(&layout)?;
    let plan_of = &plan.history;
    observer.begins(&format!("building {} blocks of {} calls", plan_of.blocks, plan_of.calls));
    let history = build(&network, network.follower(), plan.history, None)?;
    let index = layout.validators;
    let took = network.run(index)?;
    let mut caller = network.follower().client()?;
    let head = plan.history.head();
    wait_for("the chain's head", PATIENCE, &layout.stop, || {
        Ok((caller.block_number()? == head).then_some(()))
    })?;
    let mut outcomes = Vec::with_capacity(plan.runs.len());
    for (mix, load) in &plan.runs {
        observer.begins(&title(mix, *load));
        let mut outcome = measure(plan, &network, &history, mix, *load)?;
        outcome.facts.push(Fact::time("start", "from the start of the process until it served", took));
        observer.ended(&outcome)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn title(mix: &Mix, load: Load) -> String {
    let what = match mix {
        Mix::Only(method) => method.name(),
        Mix::Equal => "equal parts of all methods",
    };
    match load {
        Load::Closed => what.to_owned(),
        Load::Open(rate) => format!("{what}, {rate} a second offered"),
    }
}

fn measure(
    plan: &Plan,
    network: &Network,
    history: &History,
    mix: &Mix,
    load: Load,
) -> Result<Outcome, ChainBenchError> {
    let address = network.follower().address()?;
    let requests = Requests::new(&mix.methods(), history, plan.requests, plan.seed);
    let window = Window { warm_up: plan.warm_up, duration: plan.duration };
    let stop = &plan.layout.stop;
    let watch = Watch::start(network.watched(), EVERY)?;
    let from = watch.began();
    let start = Instant::now();
    let answers = match load {
        Load::Closed => closed(address, &Rc::new(requests), plan.connections, window, plan.seed, stop),
        Load::Open(rate) => open(address, &requests, (plan.connections, rate), window, plan.seed, stop),
    };
    let processes = watch.stop();
    let answers =
        answers.map_err(|error| if stop.is_requested() { ChainBenchError::Stopped } else { error })?;
    let offset = start.saturating_duration_since(from) + plan.warm_up;
    let usage = Usage { processes, from: offset, until: offset + plan.duration };
    Ok(outcome(plan, mix, load, window, &answers, usage))
}

fn outcome(plan: &Plan, mix: &Mix, load: Load, window: Window, answers: &Answers, usage: Usage) -> Outcome {
    let rate = answers.rate(window);
    let each = |cores: f64| if rate > 0.0 { cores / rate } else { 0.0 };
    let (node, generator) = (usage.cores_without(GENERATOR), usage.cores_of(GENERATOR));
    let mut facts = vec![
        Fact::new("wrong", "answers that are errors or nothing", answers.wrong as f64, "").at_most(0.0),
        Fact::new(
            "answer_bytes",
            "bytes of an answer",
            answers.bytes as f64 / answers.answered.max(1) as f64,
            "B",
        ),
        Fact::new("node_each", "processor time of the node, each", each(node), "s"),
        Fact::new("generator_each", "processor time of the generator, each", each(generator), "s"),
        Fact::new(
            "node_memory",
            "memory of the node, most",
            usage.most_memory_without(GENERATOR) as f64,
            "B",
        ),
    ];
    if let (Some(alone), Load::Closed) = (usage.rate_alone(rate), load) {
        let title = "what all cores would give, if nothing else ran";
        facts.push(Fact::new("rate_alone", title, alone, "req/s").higher());
    }
    let mut settings = vec![
        ("method", mix.name().into()),
        ("connections", plan.connections.into()),
        ("blocks", plan.history.blocks.into()),
        ("calls_in_a_block", plan.history.calls.into()),
        ("accounts", plan.history.accounts.into()),
        ("requests", plan.requests.into()),
        ("warm_up_s", plan.warm_up.as_secs_f64().into()),
        ("duration_s", plan.duration.as_secs_f64().into()),
        ("seed", plan.seed.into()),
    ];
    match load {
        Load::Closed => settings.push(("loop", "closed".into())),
        Load::Open(offered) => settings.extend([("loop", "open".into()), ("offered_rps", offered.into())]),
    }
    let headline = *mix == Mix::Equal && load == Load::Closed;
    Outcome {
        name: format!("reads-{}", mix.name()),
        title: title(mix, load),
        settings,
        rate,
        unit: "req/s",
        bars: headline.then_some(BARS),
        latency: Some(answers.latency.clone()),
        facts,
        usage,
        ceiling: None,
        published: figure("besu-1.5.0-rps").filter(|_| *mix == Mix::Equal).into_iter().collect(),
        comparable: true,
        notes: answers.first_wrong.iter().map(|wrong| format!("the first wrong answer: {wrong}")).collect(),
    }
}
