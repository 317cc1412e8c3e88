use serde_json::{Map, Value};

use super::{NotUnderstood, REQUEST_ID_LIMIT, json, missing, not_empty, optional, page_size, text};
use crate::refusal::{Refusal, RefusalCode};
use crate::types::{
    FlowDescription, FlowEnd, FlowEvent, FlowFailure, FlowInfo, FlowPage, FlowQuery, FlowState, FlowStep,
    Outcome, StartFlow, UnknownFate,
};
use crate::wire;

impl TryFrom<wire::StartFlowRequest> for StartFlow {
    type Error = Refusal;

    fn try_from(request: wire::StartFlowRequest) -> Result<Self, Refusal> {
        let flow = text("flow", request.flow)?;
        let arguments = if request.arguments_json.is_empty() {
            Map::new()
        } else {
            let parsed: Result<Map<String, Value>, _> = serde_json::from_str(&request.arguments_json);
            parsed.map_err(|error| {
                Refusal::new(
                    RefusalCode::ArgumentsInvalid,
                    format!("the arguments of `{flow}` are not a JSON object: {error}"),
                )
            })?
        };
        if request.request_id.len() > REQUEST_ID_LIMIT
            || !request.request_id.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(Refusal::new(
                RefusalCode::RequestInvalid,
                format!("`request_id` has at most {REQUEST_ID_LIMIT} bytes of visible ASCII"),
            ));
        }
        Ok(Self { flow, arguments, request_id: not_empty(request.request_id) })
    }
}

impl From<&StartFlow> for wire::StartFlowRequest {
    fn from(start: &StartFlow) -> Self {
        Self {
            flow: start.flow.clone(),
            arguments_json: if start.arguments.is_empty() {
                String::new()
            } else {
                serde_json::to_string(&start.arguments).expect("a map with text keys has a JSON form")
            },
            request_id: start.request_id.clone().unwrap_or_default(),
        }
    }
}

impl From<Outcome> for wire::Outcome {
    fn from(outcome: Outcome) -> Self {
        use wire::outcome::Result;
        let result = match outcome {
            Outcome::Completed(output) => Result::CompletedJson(output.to_string()),
            Outcome::Failed(failure) => Result::Failed(wire::FlowFailure {
                code: failure.code,
                reason: failure.reason,
                counterparty: failure.counterparty,
            }),
            Outcome::Unknown(fate) => Result::Unknown(wire::UnknownFate {
                transaction_id: fate.transaction_id,
                reason: fate.reason,
            }),
        };
        Self { result: Some(result) }
    }
}

impl TryFrom<wire::Outcome> for Outcome {
    type Error = NotUnderstood;

    fn try_from(outcome: wire::Outcome) -> Result<Self, NotUnderstood> {
        match outcome.result.ok_or_else(|| missing("outcome.result"))? {
            wire::outcome::Result::CompletedJson(text) => Ok(Self::Completed(json("completed_json", &text)?)),
            wire::outcome::Result::Failed(failure) => Ok(Self::Failed(FlowFailure {
                code: failure.code,
                reason: failure.reason,
                counterparty: failure.counterparty,
            })),
            wire::outcome::Result::Unknown(fate) => {
                Ok(Self::Unknown(UnknownFate { transaction_id: fate.transaction_id, reason: fate.reason }))
            }
        }
    }
}

impl From<FlowEnd> for wire::RunFlowResponse {
    fn from(end: FlowEnd) -> Self {
        Self { flow_id: end.flow_id, outcome: Some(end.outcome.into()) }
    }
}

impl TryFrom<wire::RunFlowResponse> for FlowEnd {
    type Error = NotUnderstood;

    fn try_from(answer: wire::RunFlowResponse) -> Result<Self, NotUnderstood> {
        let outcome = answer.outcome.ok_or_else(|| missing("outcome"))?.try_into()?;
        Ok(Self { flow_id: answer.flow_id, outcome })
    }
}

impl From<FlowStep> for wire::FlowStep {
    fn from(step: FlowStep) -> Self {
        Self { path: step.path, label: step.label, at_ms: step.at_ms }
    }
}

impl From<wire::FlowStep> for FlowStep {
    fn from(step: wire::FlowStep) -> Self {
        Self { path: step.path, label: step.label, at_ms: step.at_ms }
    }
}

impl From<FlowEvent> for wire::FlowEvent {
    fn from(event: FlowEvent) -> Self {
        use wire::flow_event::Event;
        Self {
            event: Some(match event {
                FlowEvent::Step(step) => Event::Step(step.into()),
                FlowEvent::Ended(outcome) => Event::Ended(outcome.into()),
            }),
        }
    }
}

impl TryFrom<wire::FlowEvent> for FlowEvent {
    type Error = NotUnderstood;

    fn try_from(event: wire::FlowEvent) -> Result<Self, NotUnderstood> {
        match event.event.ok_or_else(|| missing("event"))? {
            wire::flow_event::Event::Step(step) => Ok(Self::Step(step.into())),
            wire::flow_event::Event::Ended(outcome) => Ok(Self::Ended(outcome.try_into()?)),
        }
    }
}

impl From<FlowState> for wire::FlowState {
    fn from(state: FlowState) -> Self {
        match state {
            FlowState::Running => Self::Running,
            FlowState::Paused => Self::Paused,
            FlowState::Held => Self::Held,
            FlowState::Completed => Self::Completed,
            FlowState::Failed => Self::Failed,
            FlowState::Unknown => Self::Unknown,
        }
    }
}

fn flow_state(number: i32) -> Option<FlowState> {
    match wire::FlowState::try_from(number).ok()? {
        wire::FlowState::Unspecified => None,
        wire::FlowState::Running => Some(FlowState::Running),
        wire::FlowState::Paused => Some(FlowState::Paused),
        wire::FlowState::Held => Some(FlowState::Held),
        wire::FlowState::Completed => Some(FlowState::Completed),
        wire::FlowState::Failed => Some(FlowState::Failed),
        wire::FlowState::Unknown => Some(FlowState::Unknown),
    }
}

impl From<FlowInfo> for wire::Flow {
    fn from(flow: FlowInfo) -> Self {
        Self {
            flow_id: flow.flow_id,
            flow: flow.flow,
            version: flow.version,
            state: wire::FlowState::from(flow.state).into(),
            origin: flow.origin,
            started_at_ms: flow.started_at_ms,
            ended_at_ms: flow.ended_at_ms,
            step: flow.step.map(Into::into),
            held_reason: flow.held_reason,
            outcome: flow.outcome.map(Into::into),
        }
    }
}

impl TryFrom<wire::Flow> for FlowInfo {
    type Error = NotUnderstood;

    fn try_from(flow: wire::Flow) -> Result<Self, NotUnderstood> {
        let state = flow_state(flow.state);
        Ok(Self {
            flow_id: flow.flow_id,
            flow: flow.flow,
            version: flow.version,
            state: state.ok_or_else(|| NotUnderstood { field: "state", what: flow.state.to_string() })?,
            origin: flow.origin,
            started_at_ms: flow.started_at_ms,
            ended_at_ms: flow.ended_at_ms,
            step: flow.step.map(Into::into),
            held_reason: flow.held_reason,
            outcome: flow.outcome.map(TryInto::try_into).transpose()?,
        })
    }
}

impl TryFrom<wire::ListFlowsRequest> for FlowQuery {
    type Error = Refusal;

    fn try_from(request: wire::ListFlowsRequest) -> Result<Self, Refusal> {
        let states = request.states.iter().map(|&number| {
            flow_state(number).ok_or_else(|| {
                Refusal::new(RefusalCode::RequestInvalid, format!("{number} is no state of a flow"))
            })
        });
        let mut wanted = Vec::new();
        for state in states {
            let state = state?;
            if !wanted.contains(&state) {
                wanted.push(state);
            }
        }
        Ok(Self {
            states: wanted,
            flow: optional("flow", request.flow)?,
            page_size: page_size(request.page_size)?,
            cursor: optional("cursor", request.cursor)?,
        })
    }
}

impl From<&FlowQuery> for wire::ListFlowsRequest {
    fn from(query: &FlowQuery) -> Self {
        Self {
            states: query.states.iter().map(|&state| wire::FlowState::from(state).into()).collect(),
            flow: query.flow.clone().unwrap_or_default(),
            page_size: query.page_size,
            cursor: query.cursor.clone().unwrap_or_default(),
        }
    }
}

impl From<FlowPage> for wire::ListFlowsResponse {
    fn from(page: FlowPage) -> Self {
        Self { flows: page.flows.into_iter().map(Into::into).collect(), next: page.next.unwrap_or_default() }
    }
}

impl TryFrom<wire::ListFlowsResponse> for FlowPage {
    type Error = NotUnderstood;

    fn try_from(page: wire::ListFlowsResponse) -> Result<Self, NotUnderstood> {
        let flows = page.flows.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self { flows, next: not_empty(page.next) })
    }
}

impl From<FlowDescription> for wire::FlowDescription {
    fn from(flow: FlowDescription) -> Self {
        Self { flow: flow.flow, versions: flow.versions, arguments: flow.arguments }
    }
}

impl From<wire::FlowDescription> for FlowDescription {
    fn from(flow: wire::FlowDescription) -> Self {
        Self { flow: flow.flow, versions: flow.versions, arguments: flow.arguments }
    }
}
