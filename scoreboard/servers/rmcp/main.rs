//! The weather tool on rmcp, the official Rust SDK, as its example of multi round-trip requests has it.

mod weather;

use std::{sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::*,
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What an earlier round settled.
#[derive(Debug, Default, Serialize, Deserialize)]
struct WeatherRequestState {
    place: Option<String>,
}

#[derive(Clone)]
struct WeatherServer {
    codec: RequestStateCodec,
    hardened: bool,
}

enum Answer {
    Chosen(String),
    Ends(CallToolResult),
    Missing,
}

fn text(words: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// What the user said to a question.
fn answer(responses: &InputResponses, key: &str, choices: &[&str]) -> Result<Answer, ErrorData> {
    let unfit = || ErrorData::invalid_params(format!("{key}: not one of the choices"), None);
    let Some(response) = responses.get(key) else {
        return Ok(Answer::Missing);
    };
    let response = ElicitResult::deserialize(response).map_err(|_| unfit())?;
    match response.action {
        ElicitationAction::Accept => {
            let given = response.content.as_ref().and_then(|content| content[key].as_str());
            let chosen = given.filter(|chosen| choices.contains(chosen)).ok_or_else(unfit)?;
            Ok(Answer::Chosen(chosen.into()))
        }
        ElicitationAction::Decline => Ok(Answer::Ends(text(format!("No lookup: {key} was declined.")))),
        ElicitationAction::Cancel => Ok(Answer::Ends(text(format!("No lookup: {key} was cancelled.")))),
        _ => Err(unfit()),
    }
}

fn form(key: &str, message: String, choices: &[&str]) -> Result<ElicitRequestParams, ErrorData> {
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: serde_json::from_value(json!({
            "type": "object",
            "properties": { key: { "type": "string", "enum": choices } },
            "required": [key]
        }))
        .map_err(failed)?,
    })
}

impl WeatherServer {
    /// Ask an old client over its session, and add the answer to those of the request.
    async fn push(
        &self,
        context: &RequestContext<RoleServer>,
        answers: &mut InputResponses,
        key: &str,
        message: String,
        choices: &[&str],
    ) -> Result<(), ErrorData> {
        let is_old = context.protocol_version().is_some_and(|version| version < ProtocolVersion::V_2026_07_28);
        if self.hardened && is_old {
            let said = context.peer.create_elicitation(form(key, message, choices)?).await.map_err(failed)?;
            answers.insert(key.to_string(), serde_json::to_value(said).map_err(failed)?);
        }
        Ok(())
    }

    /// What a state is bound to, where it is bound: this tool and its arguments.
    fn context(&self, location: &str) -> Vec<u8> {
        let bound = self.hardened.then(|| format!("tools/call:weather:{location}"));
        bound.unwrap_or_default().into_bytes()
    }

    fn open(&self, sealed: &str, location: &str) -> Result<WeatherRequestState, ErrorData> {
        self.codec
            .open_json_with(sealed, &self.context(location))
            .map_err(|_| ErrorData::invalid_params("tampered or unknown request state", None))
    }

    fn ask(
        &self,
        key: &str,
        message: String,
        choices: &[&str],
        location: &str,
        state: WeatherRequestState,
    ) -> Result<CallToolResponse, ErrorData> {
        let context = self.context(location);
        let mut options = SealOptions::new().associated_data(&context);
        if self.hardened {
            options = options.ttl(Duration::from_secs(600));
        }
        let sealed = self.codec.seal_json_with(&state, &options).map_err(failed)?;
        let question = ElicitRequest::new(form(key, message, choices)?);
        let mut input_requests = InputRequests::new();
        input_requests.insert(key.to_string(), InputRequest::Elicitation(question));
        Ok(InputRequiredResult::new(Some(input_requests), Some(sealed)).into())
    }
}

impl ServerHandler for WeatherServer {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.protocol_version = ProtocolVersion::V_2026_07_28;
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({
            "type": "object",
            "properties": { "location": { "type": "string", "minLength": 1, "maxLength": 100 } },
            "required": ["location"],
            "additionalProperties": false
        });
        let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
        Ok(ListToolsResult::with_all_items(vec![Tool::new("weather", "Today's weather", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let location = arguments.get("location").and_then(|location| location.as_str());
        let location = location
            .filter(|location| request.name == "weather" && (1..=100).contains(&location.chars().count()))
            .ok_or_else(|| ErrorData::invalid_params("weather takes a location of 1 to 100 characters", None))?;
        let state = match request.request_state {
            None => WeatherRequestState::default(),
            Some(sealed) => self.open(&sealed, location)?,
        };
        let mut answers = request.input_responses.unwrap_or_default();
        let elicitation = context.client_capabilities().and_then(|declared| declared.elicitation);
        let declared = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let can_ask = declared || !self.hardened; // its example does not look

        weather::audit(location).map_err(failed)?;

        let names = weather::places(location);
        if state.place.as_deref().is_some_and(|settled| !names.contains(&settled)) {
            return Err(ErrorData::invalid_params("this state names no place", None));
        }
        let place = match (names.as_slice(), state.place) {
            ([], _) => {
                let words = format!("There is no {location}.");
                return Ok(CallToolResult::error(vec![ContentBlock::text(words)]).into());
            }
            ([only], _) => only.to_string(),
            (_, Some(settled)) => settled,
            _ if !can_ask => {
                let words = format!("Name the place: {}.", names.join("; "));
                return Ok(CallToolResult::error(vec![ContentBlock::text(words)]).into());
            }
            _ => {
                let message = format!("Which {}?", weather::trimmed(location));
                self.push(&context, &mut answers, "place", message.clone(), &names).await?;
                match answer(&answers, "place", &names)? {
                    Answer::Chosen(chosen) => chosen,
                    Answer::Ends(result) => return Ok(result.into()),
                    Answer::Missing => {
                        return self.ask("place", message, &names, location, WeatherRequestState::default());
                    }
                }
            }
        };

        let mut units = None;
        if can_ask {
            let choices = ["metric", "imperial"];
            let message = format!("Which units for {place}?");
            self.push(&context, &mut answers, "units", message.clone(), &choices).await?;
            match answer(&answers, "units", &choices)? {
                Answer::Chosen(chosen) => units = Some(chosen),
                Answer::Ends(result) => return Ok(result.into()),
                Answer::Missing => {
                    let state = WeatherRequestState { place: Some(place) };
                    return self.ask("units", message, &choices, location, state);
                }
            }
        }

        weather::bill(&place).map_err(failed)?;
        Ok(text(weather::report(&place, units.as_deref())).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = WeatherServer {
        codec: RequestStateCodec::try_new(std::env::var("STATE_SECRET")?)?,
        hardened: std::env::args().nth(1).as_deref() == Some("hardened"),
    };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{}", std::env::var("PORT")?)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}
