//! Runs that no call of the review shows, as they go over the wire: `wire refusal`, `lines` and `misfit`.
//! With the setting `bare` the server has the defaults of its library.

use std::{
    env,
    error::Error,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    thread::sleep,
    time::Duration,
};

use serde_json::{Value, json};

const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// The weather tool in a process of its own.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn started(variant: &str) -> io::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("target/debug/weather-on-rust-mcp-sdk");
        command.arg(variant).env("PORT", port.to_string()).env("STATE_SECRET", "00".repeat(32));
        Ok(Self { process: command.spawn()?, port })
    }

    fn connected(&self) -> io::Result<TcpStream> {
        for _ in 0..ATTEMPTS {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                return Ok(stream);
            }
            sleep(PAUSE);
        }
        Err(io::ErrorKind::NotConnected.into())
    }

    /// Send one request. The response is empty if none comes in time.
    fn answer(&self, method: &str, body: &str) -> io::Result<String> {
        let mut stream = self.connected()?;
        stream.set_read_timeout(Some(LONGEST))?;
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: weather\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut response = Vec::new();
        match stream.read_to_end(&mut response) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(String::from_utf8_lossy(&response).into_owned()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn request(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Print the status, the type and the body of a response.
fn print(response: &str) {
    let starts = ["http/", "content-type:", "data:", "{"];
    let is_told = |line: &&str| {
        let line = line.to_ascii_lowercase();
        starts.iter().any(|start| line.starts_with(start))
    };
    response.lines().filter(is_told).for_each(|line| println!("   {}", line.trim_end()));
}

fn refusal() -> io::Result<()> {
    let call = request(
        "tools/call",
        json!({"name": "weather", "arguments": {"location": "Springfield"}, "requestState": "made.up"}),
    );
    for (number, (variant, setting)) in [("bare", "false, its default"), ("default", "true")].iter().enumerate() {
        println!("{}. a client calls weather with a made-up state; enable_json_response: {setting}", number + 1);
        print(&Server::started(variant)?.answer("tools/call", &call.to_string())?);
    }
    Ok(())
}

fn lines() -> io::Result<()> {
    let call = request("tools/call", json!({"name": "weather", "arguments": {"location": "Atlantis"}}));
    let forms = [("in one line", call.to_string()), ("in several lines", format!("{call:#}"))];
    for (number, (form, body)) in forms.iter().enumerate() {
        println!("{}. a client calls weather for 'Atlantis', {form}", number + 1);
        let response = Server::started("default")?.answer("tools/call", body)?;
        if response.is_empty() {
            println!("   gets no response in {} s", LONGEST.as_secs());
        }
        print(&response);
    }
    Ok(())
}

fn misfit() -> io::Result<()> {
    let answers = json!({"place": {"action": "accept", "content": {"place": null}}});
    let call = request(
        "tools/call",
        json!({"name": "weather", "arguments": {"location": "Springfield"}, "inputResponses": answers}),
    );
    println!("1. a client calls weather for 'Springfield', answers 'place': {{'place': null}}");
    print(&Server::started("bare")?.answer("tools/call", &call.to_string())?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("refusal") => Ok(refusal()?),
        Some("lines") => Ok(lines()?),
        Some("misfit") => Ok(misfit()?),
        _ => Err("wire takes refusal, lines or misfit".into()),
    }
}
