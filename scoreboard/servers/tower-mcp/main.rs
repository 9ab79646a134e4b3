//! The weather tool on tower-mcp, as its tests of multi round-trip requests have it; an old client is asked by push, in
//! the branch that the documentation of `elicit_form` names.

mod weather;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tower_mcp::{
    BoxError, CallToolResult, ElicitAction, ElicitFieldValue, ElicitFormParams, ElicitFormSchema, ElicitMode,
    ElicitRequestParams, ElicitResult, Error, HttpTransport, InputRequest, InputRequests, InputRequiredResult, InputResponse,
    McpRouter, RequestContext, RequestOutcome, RequestStateCodec, Result, ToolBuilder,
    schemars::{self, JsonSchema},
};

type Outcome = RequestOutcome<CallToolResult>;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(length(min = 1, max = 100))]
    location: String,
}

enum Answer {
    Chosen(String),
    Ends(Outcome),
    Missing,
}

fn text(words: String) -> Outcome {
    Outcome::Complete(CallToolResult::text(words))
}

fn refusal(words: String) -> Outcome {
    Outcome::Complete(CallToolResult::error(words))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

/// What the user said to a question.
fn answer(ctx: &RequestContext, key: &str, choices: &[&str]) -> Result<Answer> {
    let unfit = || Error::invalid_params(format!("{key}: not one of the choices"));
    let response = match ctx.input_responses().and_then(|responses| responses.get(key)) {
        None => return Ok(Answer::Missing),
        Some(InputResponse::Elicit(response)) => response,
        Some(_) => return Err(unfit()),
    };
    judged(response, key, choices)
}

fn judged(response: &ElicitResult, key: &str, choices: &[&str]) -> Result<Answer> {
    let unfit = || Error::invalid_params(format!("{key}: not one of the choices"));
    match response.action {
        ElicitAction::Accept => match response.content.as_ref().and_then(|content| content.get(key)) {
            Some(ElicitFieldValue::String(chosen)) if choices.contains(&chosen.as_str()) => {
                Ok(Answer::Chosen(chosen.clone()))
            }
            _ => Err(unfit()),
        },
        ElicitAction::Decline => Ok(Answer::Ends(text(format!("No lookup: {key} was declined.")))),
        ElicitAction::Cancel => Ok(Answer::Ends(text(format!("No lookup: {key} was cancelled.")))),
        _ => Err(unfit()),
    }
}

fn form(key: &str, message: String, choices: &[&str]) -> ElicitFormParams {
    let choices = choices.iter().map(|choice| choice.to_string()).collect();
    ElicitFormParams {
        mode: Some(ElicitMode::Form),
        message,
        requested_schema: ElicitFormSchema::new().enum_field(key, None, choices, true),
        meta: None,
    }
}

/// Asks a client of 2025-11-25 now, and returns what its user said.
async fn pushed(ctx: &RequestContext, key: &str, message: String, choices: &[&str]) -> Result<Answer> {
    judged(&ctx.elicit_form(form(key, message, choices)).await?, key, choices)
}

fn ask(key: &str, message: String, choices: &[&str]) -> InputRequiredResult {
    let mut requests = InputRequests::default();
    requests.insert(
        key.to_string(),
        InputRequest::Elicit(ElicitRequestParams::Form(form(key, message, choices))),
    );
    InputRequiredResult::with_requests(requests)
}

fn which(location: &str) -> String {
    format!("Which {}?", weather::trimmed(location))
}

/// What the user said: an old client is asked for it, a new one has brought it along or not.
async fn said(ctx: &RequestContext, key: &str, message: String, choices: &[&str]) -> Result<Answer> {
    if ctx.can_elicit() {
        return pushed(ctx, key, message, choices).await;
    }
    answer(ctx, key, choices)
}

/// What an earlier round settled.
#[derive(Serialize, Deserialize)]
struct Settled {
    place: String,
}

/// A state; where there is a codec, it is signed.
fn seal(ctx: &RequestContext, settled: Settled) -> Result<String> {
    match ctx.request_state_codec() {
        None => serde_json::to_string(&settled).map_err(failed),
        Some(codec) => codec.encode(&settled).map_err(failed),
    }
}

fn open(ctx: &RequestContext) -> Result<Option<Settled>> {
    let unfit = |error: &dyn std::fmt::Display| Error::invalid_params(format!("request state: {error}"));
    let Some(state) = ctx.request_state() else { return Ok(None) };
    let Some(codec) = ctx.request_state_codec() else {
        return serde_json::from_str(state).map(Some).map_err(|error| unfit(&error));
    };
    codec.decode::<Settled>(state).map(Some).map_err(|error| unfit(&error))
}

async fn weather(ctx: RequestContext, Input { location }: Input) -> Result<Outcome> {
    let settled = open(&ctx)?;
    let capabilities = ctx.per_request_meta().and_then(|meta| meta.client_capabilities.as_ref());
    let elicitation = capabilities.and_then(|declared| declared.elicitation.as_ref());
    let pushes = ctx.can_elicit();
    let hardened = ctx.request_state_codec().is_some();
    let can_ask = !hardened || pushes || elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());

    weather::audit(&location).map_err(failed)?;

    let names = weather::places(&location);
    if settled.as_ref().is_some_and(|settled| !names.contains(&settled.place.as_str())) {
        return Err(Error::invalid_params("this state names no place"));
    }
    let place = match (names.as_slice(), settled) {
        ([], _) => return Ok(refusal(format!("There is no {location}."))),
        ([only], _) => only.to_string(),
        (_, Some(settled)) => settled.place,
        _ if !can_ask => return Ok(refusal(format!("Name the place: {}.", names.join("; ")))),
        _ => match said(&ctx, "place", which(&location), &names).await? {
            Answer::Chosen(chosen) => chosen,
            Answer::Ends(outcome) => return Ok(outcome),
            Answer::Missing => {
                let message = which(&location);
                return Ok(RequestOutcome::input_required(ask("place", message, &names)));
            }
        },
    };

    let mut units = None;
    if can_ask {
        let choices = ["metric", "imperial"];
        match said(&ctx, "units", format!("Which units for {place}?"), &choices).await? {
            Answer::Chosen(chosen) => units = Some(chosen),
            Answer::Ends(outcome) => return Ok(outcome),
            Answer::Missing => {
                let asked = ask("units", format!("Which units for {place}?"), &choices);
                let state = seal(&ctx, Settled { place })?;
                return Ok(RequestOutcome::input_required(asked.with_request_state(state)));
            }
        }
    }

    weather::bill(&place).map_err(failed)?;
    Ok(text(weather::report(&place, units.as_deref())))
}

#[tokio::main]
async fn main() -> std::result::Result<(), BoxError> {
    let tool = ToolBuilder::new("weather")
        .description("Today's weather")
        .mrtr_handler(weather)
        .build();
    let mut router = McpRouter::new().server_info("weather", "1.0.0").tool(tool);
    if std::env::args().nth(1).as_deref() == Some("hardened") {
        let key = std::env::var("STATE_SECRET")?;
        router = router.with_extension(RequestStateCodec::new(key, Duration::from_secs(600))?);
    }
    let app = HttpTransport::new(router).with_sampling().into_router_at("/mcp");
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{}", std::env::var("PORT")?)).await?;
    axum::serve(listener, app).await?;
    Ok(())
}
