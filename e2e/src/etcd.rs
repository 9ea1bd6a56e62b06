//! What is asked of etcd itself, through its JSON gateway.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Forgets every version before the newest one, which it gives.
pub(crate) async fn compact(url: &str) -> Result<u64, String> {
    let status = ask(url, "/v3/maintenance/status", &json!({})).await?;
    let revision = status.pointer("/header/revision").and_then(Value::as_str);
    let revision: u64 =
        revision.and_then(|text| text.parse().ok()).ok_or(format!("no revision: {status}"))?;
    ask(url, "/v3/kv/compaction", &json!({"revision": revision.to_string(), "physical": true})).await?;
    Ok(revision)
}

async fn ask(url: &str, path: &str, question: &Value) -> Result<Value, String> {
    let address = url.strip_prefix("http://").ok_or(format!("{url} is no address of etcd"))?;
    let question = question.to_string();
    // Of this version of HTTP, so that the answer is in one piece and ends with the connection.
    let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{question}", question.len());
    let answer = async {
        let mut connection = TcpStream::connect(address).await?;
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = answer.await.map_err(|error| format!("{path}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(format!("{path}: {answer:?} is no answer"))?;
    if !head.contains(" 200 ") {
        return Err(format!("{path}: {answer}"));
    }
    serde_json::from_str(body).map_err(|error| format!("{path}: {error}: {body:?}"))
}
