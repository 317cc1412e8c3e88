//! Those who start flows: what they asked for, what they were told, and whether it was the truth.

use std::sync::{Arc, Mutex, PoisonError};

use tally_flows::{FlowId, Outcome, Started};
use tally_node::{Core, Event, Known, Request, Unavailable};

/// What a follower hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Started,
    Ended(Outcome),
}

/// Something that a user wants.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// At which node.
    pub(crate) node: usize,
    pub(crate) flow: &'static str,
    pub(crate) arguments: Vec<u8>,
    /// Under this name the user can ask again; without one only after what came of it.
    pub(crate) named: bool,
    /// What it is about, for whoever checks the books.
    pub(crate) about: super::orders::About,
}

/// An order and what became of it.
pub(crate) struct Asked {
    pub(crate) order: Order,
    pub(crate) flow: Option<FlowId>,
    /// The user was told that it has durably begun.
    pub(crate) begun: bool,
    /// The user was told how it ended.
    pub(crate) outcome: Option<Outcome>,
    /// It will never be there: it was not durable, and cannot be asked for again.
    pub(crate) lost: bool,
    /// A person killed it.
    pub(crate) killed: bool,
    following: bool,
    news: Arc<Mutex<Vec<News>>>,
}

#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) asked: Vec<Asked>,
    /// Orders of others before them, whose names are taken.
    pub(crate) before: usize,
    /// Times that an order was repeated, and found what it had begun.
    pub(crate) repeats: u64,
}

impl Asked {
    pub(crate) fn is_open(&self) -> bool {
        self.outcome.is_none() && !self.lost
    }

    fn take(&self) -> Vec<News> {
        std::mem::take(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Clients {
    /// A new order; it is not handed in yet.
    pub(crate) fn order(&mut self, order: Order) -> usize {
        self.asked.push(Asked {
            order,
            flow: None,
            begun: false,
            outcome: None,
            lost: false,
            killed: false,
            following: false,
            news: Arc::default(),
        });
        self.asked.len() - 1
    }

    /// Hands an order in, once more if it was before. `false`: the node takes nothing now.
    pub(crate) fn hand_in(&mut self, index: usize, core: &Core) -> bool {
        let number = self.before + index;
        let asked = &mut self.asked[index];
        if !asked.order.named && asked.flow.is_some() {
            return Self::look(asked, core);
        }
        let request = Request {
            user: "user".to_owned(),
            request: asked.order.named.then(|| format!("order {number}")),
            flow: asked.order.flow.to_owned(),
            arguments: asked.order.arguments.clone(),
        };
        match core.start(request) {
            Ok((flow, started)) => {
                assert!(asked.flow.is_none_or(|before| before == flow), "order {index} has one flow");
                assert!(
                    started == Started::Before || (!asked.begun && asked.outcome.is_none()),
                    "order {index} had begun, and began again: {:?}",
                    asked.order
                );
                if started == Started::Before {
                    self.repeats += 1;
                }
                asked.flow = Some(flow);
                Self::follow(asked, core)
            }
            Err(
                error
                @ (Unavailable::Start(tally_flows::StartError::Refused(_)) | Unavailable::Reused { .. }),
            ) => {
                panic!("order {index} is refused: {error}: {:?}", asked.order)
            }
            Err(_) => false,
        }
    }

    /// What became of an order without a name.
    fn look(asked: &mut Asked, core: &Core) -> bool {
        let Some(flow) = asked.flow else { return false };
        match core.known(flow) {
            Err(_) => false,
            Ok(None) => {
                assert!(
                    !asked.begun && asked.outcome.is_none(),
                    "a flow that had begun is not there: {flow}"
                );
                asked.lost = true;
                true
            }
            Ok(Some(Known::Ended { .. } | Known::UnderWay)) => Self::follow(asked, core),
        }
    }

    fn follow(asked: &mut Asked, core: &Core) -> bool {
        let Some(flow) = asked.flow else { return false };
        if asked.following {
            return true;
        }
        let news = asked.news.clone();
        let follower = move |event: &Event| {
            let heard = match event {
                Event::Started => News::Started,
                Event::Ended(outcome) => News::Ended(outcome.clone()),
                Event::Step(_) => return true,
            };
            news.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
            true
        };
        asked.following = core.follow(flow, Box::new(follower)).is_ok();
        asked.following
    }

    /// What was heard since the last time; each with its order.
    pub(crate) fn listen(&mut self) -> Vec<(usize, News)> {
        let mut all = Vec::new();
        for (index, asked) in self.asked.iter_mut().enumerate() {
            for news in asked.take() {
                match &news {
                    News::Started => asked.begun = true,
                    News::Ended(outcome) => {
                        asked.following = false;
                        let before = asked.outcome.get_or_insert_with(|| outcome.clone());
                        assert_eq!(before, outcome, "order {index} ended in two ways");
                    }
                }
                all.push((index, news));
            }
        }
        all
    }

    /// The node's process is gone: nobody there tells anything any more.
    pub(crate) fn node_is_gone(&mut self, node: usize) {
        for asked in self.asked.iter_mut().filter(|asked| asked.order.node == node) {
            asked.following = false;
        }
    }

    /// Orders of a node that are handed in and not answered, and that nobody follows.
    pub(crate) fn unattended(&self, node: usize) -> Vec<usize> {
        let open = |asked: &Asked| asked.order.node == node && asked.is_open() && !asked.following;
        self.asked.iter().enumerate().filter(|(_, asked)| open(asked)).map(|(index, _)| index).collect()
    }
}
