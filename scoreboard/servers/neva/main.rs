//! The weather tool on neva, as its example of multi round-trip requests has it.

mod weather;

use neva::prelude::*;
use neva::types::elicitation::ElicitationAction;
use serde_json::json;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::InternalError, error.to_string())
}

fn form(key: &str, message: String, choices: &[&str]) -> ElicitRequestParams {
    let schema = Schema::from(&json!({ "type": "string", "enum": choices }));
    ElicitRequestParams::form(message).with_required(key, schema).into()
}

/// What the user chose.
async fn ask(ctx: &Context, key: &str, message: String, choices: &[&str]) -> Result<String, Error> {
    let answer = ctx.elicit(key, form(key, message, choices)).await?;
    match answer.action {
        ElicitationAction::Decline => Err(failed(format!("{key} was declined"))),
        ElicitationAction::Cancel => Err(failed(format!("{key} was cancelled"))),
        ElicitationAction::Accept => answer
            .content::<serde_json::Value>()
            .and_then(|given| Some(given.get(key)?.as_str()?.to_owned()))
            .filter(|chosen| choices.contains(&chosen.as_str()))
            .ok_or_else(|| failed(format!("{key}: not one of the choices"))),
    }
}

#[tool(
    descr = "Today's weather",
    input_schema = r#"{
        "properties": { "location": { "type": "string", "minLength": 1, "maxLength": 100 } },
        "required": ["location"],
        "additionalProperties": false
    }"#
)]
async fn weather(ctx: Context, location: String) -> Result<String, Error> {
    if !(1..=100).contains(&location.chars().count()) {
        return Err(failed("a location has 1 to 100 characters"));
    }
    ctx.once("audit", async { weather::audit(&location).map_err(failed) }).await?;

    let names = weather::places(&location);
    let modes = ctx.client_capabilities().elicitation;
    let can_ask = modes.is_some_and(|modes| modes.form || modes.unconstrained());
    let place = match names.as_slice() {
        [] => return Err(failed(format!("There is no {location}."))),
        [only] => only.to_string(),
        _ if !can_ask => return Err(failed(format!("Name the place: {}.", names.join("; ")))),
        _ => ask(&ctx, "place", format!("Which {}?", weather::trimmed(&location)), &names).await?,
    };
    let units = match can_ask {
        true => Some(ask(&ctx, "units", format!("Which units for {place}?"), &["metric", "imperial"]).await?),
        false => None,
    };

    ctx.once("bill", async { weather::bill(&place).map_err(failed) }).await?;
    Ok(weather::report(&place, units.as_deref()))
}

#[tokio::main]
async fn main() {
    let address = format!("127.0.0.1:{}", std::env::var("PORT").unwrap_or_default());
    let mut app = App::new().with_options(|opt| {
        opt.with_name("weather")
            .with_version("1.0.0")
            .with_http(|http| http.bind(&address).with_endpoint("/mcp"))
    });
    if std::env::args().nth(1).as_deref() == Some("hardened") {
        app = app.with_request_state_secret(std::env::var("STATE_SECRET").unwrap_or_default());
    }
    app.run().await;
}
