//! The weather tool on rust-mcp-sdk, as its guide from 1.x to 2.0 writes a tool that asks.

mod weather;

use std::{collections::BTreeMap, result::Result, sync::Arc, time::Duration};

use async_trait::async_trait;
use rust_mcp_axum::{AxumServerOptions, create_axum_server};
use rust_mcp_sdk::{
    McpServer, RequestContext, ServerDetails,
    error::SdkResult,
    macros,
    mcp_server::{RequestStateCodec, ServerHandler, ToMcpServerHandler},
    schema::*,
};
use serde::{Deserialize, Serialize};

#[macros::mcp_tool(name = "weather", description = "Today's weather")]
#[derive(Debug, Deserialize, Serialize, macros::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeatherTool {
    #[json_schema(min_length = 1, max_length = 100)]
    location: String,
}

/// What an earlier round settled.
#[derive(Serialize, Deserialize)]
struct Settled {
    place: String,
}

enum Answer {
    Chosen(String),
    Ends(CallToolResult),
    Missing,
}

struct WeatherHandler {
    codec: RequestStateCodec,
    hardened: bool,
    bare: bool,
}

fn text(words: String) -> CallToolResult {
    CallToolResult::text_content(vec![TextContent::new(words, None, None)])
}

fn tool_error(words: String) -> CallToolResult {
    CallToolResult { is_error: Some(true), ..text(words) }
}

fn refused(words: impl Into<String>) -> RpcError {
    RpcError::invalid_params().with_message(words.into())
}

fn failed(error: impl std::error::Error + 'static) -> RpcError {
    CallToolError::new(error).into()
}

fn can_ask(context: &RequestContext) -> bool {
    let elicitation = context.client_capabilities.elicitation.as_ref();
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// What the user said to a question.
fn answer(responses: Option<&InputResponses>, key: &str, choices: &[&str]) -> Result<Answer, RpcError> {
    let unfit = || refused(format!("{key}: not one of the choices"));
    let Some(response) = responses.and_then(|responses| responses.0.get(key)) else {
        return Ok(Answer::Missing);
    };
    let InputResponse::ElicitResult(result) = response else {
        return Err(unfit());
    };
    match result.action {
        ElicitResultAction::Decline => return Ok(Answer::Ends(text(format!("No lookup: {key} was declined.")))),
        ElicitResultAction::Cancel => return Ok(Answer::Ends(text(format!("No lookup: {key} was cancelled.")))),
        ElicitResultAction::Accept => {}
    }
    let given = result.content.as_ref().and_then(|content| content.get(key));
    let Some(ElicitResultContent::Primitive(ElicitResultContentPrimitive::String(chosen))) = given else {
        return Err(unfit());
    };
    if !choices.contains(&chosen.as_str()) {
        return Err(unfit());
    }
    Ok(Answer::Chosen(chosen.clone()))
}

fn ask(key: &str, message: String, choices: &[&str], request_state: Option<String>) -> ServerResult {
    let choices = choices.iter().map(ToString::to_string).collect();
    let property = UntitledSingleSelectEnumSchema::new(choices, None, None, None).into();
    let form = ElicitRequestFormParamsRequestedSchema::new(
        BTreeMap::from([(key.to_string(), property)]),
        vec![key.to_string()],
        None,
    );
    let question = ElicitRequest::new(ElicitRequestFormParams::new(message, form).into());
    ServerResult::InputRequiredResult(InputRequiredResult {
        input_requests: Some(InputRequests(BTreeMap::from([(
            key.to_string(),
            InputRequest::ElicitRequest(question),
        )]))),
        meta: None,
        request_state,
        result_type: "input_required".to_string(),
    })
}

impl WeatherHandler {
    fn sealed(&self, place: &str) -> Result<String, RpcError> {
        let settled = Settled { place: place.to_string() };
        Ok(self.codec.encode_str(&serde_json::to_string(&settled).map_err(failed)?))
    }

    fn opened(&self, state: &str) -> Result<String, RpcError> {
        let unfit = || refused("requestState failed integrity verification");
        let decoded = self.codec.decode_str(state).ok_or_else(unfit)?;
        let settled: Settled = serde_json::from_str(&decoded).map_err(|_| unfit())?;
        Ok(settled.place)
    }
}

#[async_trait]
impl ServerHandler for WeatherHandler {
    async fn handle_list_tools_request(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: &RequestContext,
        _runtime: Arc<dyn McpServer>,
    ) -> Result<ListToolsResult, RpcError> {
        let mut tool = WeatherTool::tool();
        let schema = tool.input_schema.extra.get_or_insert_default();
        schema.insert("additionalProperties".to_string(), false.into());
        Ok(ListToolsResult {
            tools: vec![tool],
            cache_scope: ListToolsResultCacheScope::Private,
            meta: None,
            next_cursor: None,
            result_type: "complete".to_string(),
            ttl_ms: 0,
        })
    }

    async fn handle_call_tool_request_mrtr(
        &self,
        params: CallToolRequestParams,
        context: &RequestContext,
        _runtime: Arc<dyn McpServer>,
    ) -> Result<ServerResult, RpcError> {
        let arguments = serde_json::Value::Object(params.arguments.unwrap_or_default());
        let WeatherTool { location } = serde_json::from_value(arguments).map_err(|error| refused(error.to_string()))?;
        if params.name != "weather" || !(1..=100).contains(&location.chars().count()) {
            return Err(refused("weather takes a location of 1 to 100 characters"));
        }
        let settled = match params.request_state {
            Some(state) => Some(self.opened(&state)?),
            None => None,
        };
        let answers = params.input_responses.as_ref();
        let asks = can_ask(context) || !self.hardened; // its guide does not look

        weather::audit(&location).map_err(failed)?;

        let names = weather::places(&location);
        if settled.as_deref().is_some_and(|place| !names.contains(&place)) {
            return Err(refused("this state names no place"));
        }
        let place = match (names.as_slice(), settled) {
            ([], _) => return Ok(tool_error(format!("There is no {location}.")).into()),
            ([only], _) => only.to_string(),
            (_, Some(place)) => place,
            _ if !asks => return Ok(tool_error(format!("Name the place: {}.", names.join("; "))).into()),
            _ => match answer(answers, "place", &names)? {
                Answer::Chosen(chosen) => chosen,
                Answer::Ends(result) => return Ok(result.into()),
                Answer::Missing => {
                    let message = format!("Which {}?", weather::trimmed(&location));
                    return Ok(ask("place", message, &names, None));
                }
            },
        };

        let mut units = None;
        if asks {
            let choices = ["metric", "imperial"];
            match answer(answers, "units", &choices)? {
                Answer::Chosen(chosen) => units = Some(chosen),
                Answer::Ends(result) => return Ok(result.into()),
                Answer::Missing => {
                    let message = format!("Which units for {place}?");
                    return Ok(ask("units", message, &choices, Some(self.sealed(&place)?)));
                }
            }
        }

        weather::bill(&place).map_err(failed)?;
        Ok(text(weather::report(&place, units.as_deref())).into())
    }

    /// A call whose answers fit no model of the schema arrives here, too.
    async fn handle_custom_request(
        &self,
        request: CustomRequest,
        _context: &RequestContext,
        _runtime: Arc<dyn McpServer>,
    ) -> Result<GenericResult, RpcError> {
        if request.method == "tools/call" && !self.bare {
            let params = request.params.unwrap_or_default();
            let answers = params.get("inputResponses").and_then(|answers| answers.as_object());
            let keys: Vec<_> = answers.into_iter().flat_map(|answers| answers.keys().cloned()).collect();
            return Err(refused(format!("a call that fits no model; its answers: {}", keys.join(", "))));
        }
        Err(RpcError::method_not_found().with_message("No handler is implemented for custom requests.".to_string()))
    }
}

/// The key of the environment, 64 hexadecimal digits.
fn key() -> Result<[u8; 32], Box<dyn std::error::Error>> {
    let digits = std::env::var("STATE_SECRET")?;
    let mut key = [0; 32];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2).ok_or("a key of 32 bytes")?, 16)?;
    }
    Ok(key)
}

#[tokio::main]
async fn main() -> SdkResult<()> {
    let variant = std::env::args().nth(1).unwrap_or_default();
    let (hardened, bare) = (variant == "hardened", variant == "bare");
    let max_age = Duration::from_secs(if hardened { 600 } else { 60 });
    let key = key().expect("STATE_SECRET is a key");
    let handler = WeatherHandler { codec: RequestStateCodec::with_key(key).with_max_age(max_age), hardened, bare };
    let details = ServerDetails {
        server_info: Implementation {
            name: "weather".into(),
            version: "1.0.0".into(),
            title: None,
            description: None,
            icons: vec![],
            website_url: None,
        },
        capabilities: ServerCapabilities {
            tools: Some(ServerCapabilitiesTools { list_changed: None }),
            ..Default::default()
        },
        instructions: None,
        meta: None,
    };
    let options = AxumServerOptions {
        host: "127.0.0.1".into(),
        port: std::env::var("PORT").ok().and_then(|port| port.parse().ok()).expect("PORT is a port"),
        // The review's client reads an error of status 400 from JSON alone.
        enable_json_response: Some(!bare),
        ..Default::default()
    };
    create_axum_server(details, handler.to_mcp_server_handler(), options).start().await?;
    Ok(())
}
