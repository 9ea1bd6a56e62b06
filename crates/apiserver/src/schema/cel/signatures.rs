//! The functions that expressions may call, with their types.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// The functions of Kubernetes 1.36, which definitions may use in Kubernetes 1.37: one a line, the type of the target
/// before the dot. `T` and `U` are any types; `C` is a type with an order. Those of authorization are missing.
const FUNCTIONS: &str = "
_+_(int int)int _+_(uint uint)uint _+_(double double)double _+_(string string)string _+_(bytes bytes)bytes
_+_(list<T> list<T>)list<T> _+_(duration duration)duration _+_(timestamp duration)timestamp
_+_(duration timestamp)timestamp
_-_(int int)int _-_(uint uint)uint _-_(double double)double _-_(duration duration)duration
_-_(timestamp duration)timestamp _-_(timestamp timestamp)duration
_*_(int int)int _*_(uint uint)uint _*_(double double)double
_/_(int int)int _/_(uint uint)uint _/_(double double)double
_%_(int int)int _%_(uint uint)uint
-_(int)int -_(double)double -_(duration)duration
!_(bool)bool _&&_(bool bool)bool _||_(bool bool)bool @not_strictly_false(bool)bool
_?_:_(bool T T)T _==_(T T)bool _!=_(T T)bool
@in(T list<T>)bool @in(T map<T,U>)bool
_[_](list<T> int)T _[_](map<T,U> T)U
_[_](optional<list<T>> int)optional<T> _[_](optional<map<T,U>> T)optional<U>
_[?_](list<T> int)optional<T> _[?_](map<T,U> T)optional<U>
_[?_](optional<list<T>> int)optional<T> _[?_](optional<map<T,U>> T)optional<U>
size(string)int size(bytes)int size(list<T>)int size(map<T,U>)int
string.size()int bytes.size()int list<T>.size()int map<T,U>.size()int
string.startsWith(string)bool string.endsWith(string)bool string.contains(string)bool
matches(string string)bool string.matches(string)bool
bool(bool)bool bool(string)bool
bytes(bytes)bytes bytes(string)bytes
double(double)double double(int)double double(string)double double(uint)double
duration(duration)duration duration(int)duration duration(string)duration
dyn(T)dyn
int(double)int int(duration)int int(int)int int(string)int int(timestamp)int int(uint)int
string(bool)string string(bytes)string string(double)string string(duration)string string(int)string
string(string)string string(timestamp)string string(uint)string
timestamp(int)timestamp timestamp(string)timestamp timestamp(timestamp)timestamp
type(T)type
uint(double)uint uint(int)uint uint(string)uint uint(uint)uint
timestamp.getFullYear()int timestamp.getMonth()int timestamp.getDayOfYear()int timestamp.getDayOfMonth()int
timestamp.getDate()int timestamp.getDayOfWeek()int timestamp.getHours()int timestamp.getMinutes()int
timestamp.getSeconds()int timestamp.getMilliseconds()int
timestamp.getFullYear(string)int timestamp.getMonth(string)int timestamp.getDayOfYear(string)int
timestamp.getDayOfMonth(string)int timestamp.getDate(string)int timestamp.getDayOfWeek(string)int
timestamp.getHours(string)int timestamp.getMinutes(string)int timestamp.getSeconds(string)int
timestamp.getMilliseconds(string)int
duration.getHours()int duration.getMinutes()int duration.getSeconds()int duration.getMilliseconds()int
optional.none()optional<T> optional.of(T)optional<T> optional.ofNonZeroValue(T)optional<T>
optional.unwrap(list<optional<T>>)list<T> list<optional<T>>.unwrapOpt()list<T>
optional<T>.hasValue()bool optional<T>.value()T optional<T>.or(optional<T>)optional<T> optional<T>.orValue(T)T
string.charAt(int)string string.indexOf(string)int string.indexOf(string int)int
string.lastIndexOf(string)int string.lastIndexOf(string int)int string.lowerAscii()string string.upperAscii()string
string.replace(string string)string string.replace(string string int)string
string.split(string)list<string> string.split(string int)list<string>
string.substring(int)string string.substring(int int)string string.trim()string
list<string>.join()string list<string>.join(string)string
string.format(list<dyn>)string strings.quote(string)string
sets.contains(list<T> list<T>)bool sets.equivalent(list<T> list<T>)bool sets.intersects(list<T> list<T>)bool
list<C>.isSorted()bool list<C>.min()C list<C>.max()C list<T>.indexOf(T)int list<T>.lastIndexOf(T)int
list<int>.sum()int list<uint>.sum()uint list<double>.sum()double list<duration>.sum()duration
list<T>.slice(int int)list<T> list<list<T>>.flatten()list<T> list<dyn>.flatten(int)list<dyn>
list<C>.sort()list<C> list<T>.distinct()list<T> list<T>.reverse()list<T> lists.range(int)list<int>
list<T>.first()optional<T> list<T>.last()optional<T>
string.find(string)string string.findAll(string)list<string> string.findAll(string int)list<string>
quantity(string)quantity isQuantity(string)bool sign(quantity)int quantity.isInteger()bool
quantity.asInteger()int quantity.asApproximateFloat()double
quantity.add(quantity)quantity quantity.add(int)quantity quantity.sub(quantity)quantity quantity.sub(int)quantity
quantity.isLessThan(quantity)bool quantity.isGreaterThan(quantity)bool quantity.compareTo(quantity)int
isURL(string)bool url(string)url url.getScheme()string url.getHost()string url.getHostname()string url.getPort()string
url.getEscapedPath()string url.getQuery()map<string,list<string>>
isIP(string)bool ip(string)ip ip.isCanonical(string)bool string(ip)string
ip.family()int ip.isUnspecified()bool ip.isLoopback()bool ip.isLinkLocalMulticast()bool
ip.isLinkLocalUnicast()bool ip.isGlobalUnicast()bool
isCIDR(string)bool cidr(string)cidr string(cidr)string cidr.ip()ip cidr.masked()cidr cidr.prefixLength()int
cidr.containsIP(ip)bool cidr.containsIP(string)bool cidr.containsCIDR(cidr)bool cidr.containsCIDR(string)bool
semver(string)semver semver(string bool)semver isSemver(string)bool isSemver(string bool)bool
semver.major()int semver.minor()int semver.patch()int
semver.isLessThan(semver)bool semver.isGreaterThan(semver)bool semver.compareTo(semver)int
format.named(string)optional<format> format.validate(string)optional<list<string>>
format.dns1123Label()format format.dns1123Subdomain()format format.dns1035Label()format
format.qualifiedName()format format.dns1123LabelPrefix()format format.dns1123SubdomainPrefix()format
format.dns1035LabelPrefix()format format.labelValue()format format.uri()format format.uuid()format
format.byte()format format.date()format format.datetime()format
";

/// The types that can be ordered with `<`. Numbers can be compared with any others.
const ORDERED: [&str; 8] = ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];

/// The functions that are in a namespace, and have no target.
const NAMESPACES: [&str; 6] = ["optional", "sets", "lists", "strings", "ip", "format"];

#[derive(Debug)]
pub(super) struct Signature {
    pub(super) target: Option<Type<'static>>,
    pub(super) arguments: Vec<Type<'static>>,
    pub(super) result: Type<'static>,
}

static SIGNATURES: LazyLock<HashMap<String, Vec<Signature>>> = LazyLock::new(|| {
    let mut signatures: HashMap<String, Vec<Signature>> = HashMap::new();
    let mut add = |name: &str, target: Option<&str>, arguments: &str, result: &str| {
        let arguments = split(arguments, ' ').into_iter().map(parse).collect();
        let signature = Signature { target: target.map(parse), arguments, result: parse(result) };
        signatures.entry(name.to_owned()).or_default().push(signature);
    };
    for text in FUNCTIONS.lines().flat_map(|line| split(line, ' ')) {
        let (Some(open), Some(close)) = (text.find('('), text.rfind(')')) else { continue };
        let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or("");
        let (name, arguments, result) = (part(0..open), part(open + 1..close), part(close + 1..text.len()));
        match name.rsplit_once('.') {
            Some((target, method)) if is_method(target, method) => {
                add(method, Some(target), arguments, result)
            }
            _ => add(name, None, arguments, result),
        }
    }
    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        for ordered in ORDERED {
            add(name, None, &format!("{ordered} {ordered}"), "bool");
        }
        for pair in ["int uint", "int double", "uint int", "uint double", "double int", "double uint"] {
            add(name, None, pair, "bool");
        }
    }
    signatures
});

/// Whether what is before a dot is the type of a target. `ip` and `format` are namespaces, too.
fn is_method(target: &str, method: &str) -> bool {
    match target {
        "ip" => method != "isCanonical",
        "format" => method == "validate",
        target => !NAMESPACES.contains(&target),
    }
}

/// Returns the signatures of a function; `None` if there is no such function.
pub(super) fn of(name: &str) -> Option<&'static [Signature]> {
    SIGNATURES.get(name).map(Vec::as_slice)
}

/// Splits a text where no brackets are open.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut depth = 0_i32;
    let parts = text.split(|c| {
        depth += match c {
            '<' | '(' => 1,
            '>' | ')' => -1,
            _ => 0,
        };
        c == separator && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn parse(text: &str) -> Type<'static> {
    let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('<')?.strip_suffix('>');
    if let Some(items) = inner("list") {
        return Type::List(Box::new(parse(items)));
    }
    if let Some(value) = inner("optional") {
        return Type::Optional(Box::new(parse(value)));
    }
    if let Some([key, value]) = inner("map").map(|entry| split(entry, ',')).as_deref() {
        return Type::Map(Box::new(parse(key)), Box::new(parse(value)));
    }
    match text {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "cidr" => Type::Named("net.CIDR"),
        "double" => Type::Double,
        "duration" => Type::Duration,
        "format" => Type::Named("kubernetes.NamedFormat"),
        "int" => Type::Int,
        "ip" => Type::Named("net.IP"),
        "quantity" => Type::Named("kubernetes.Quantity"),
        "semver" => Type::Named("kubernetes.Semver"),
        "string" => Type::String,
        "timestamp" => Type::Timestamp,
        "type" => Type::Named("type"),
        "uint" => Type::Uint,
        "url" => Type::Named("kubernetes.URL"),
        "C" => Type::Parameter("C"),
        "T" => Type::Parameter("T"),
        "U" => Type::Parameter("U"),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_known() {
        for (name, signatures) in SIGNATURES.iter() {
            for signature in signatures {
                let types = signature.arguments.iter().chain(&signature.target).chain([&signature.result]);
                let has_dyn = types.filter(|of| of.is_any()).count() > 0;
                assert!(!has_dyn || name == "dyn", "{name}: {signature:?}");
            }
        }
        assert_eq!(of("add").map(<[_]>::len), Some(2));
        assert_eq!(of("isCanonical").map(<[_]>::len), None);
        assert_eq!(of("ip.isCanonical").map(<[_]>::len), Some(1));
        assert_eq!(of("_[_]").map(<[_]>::len), Some(4));
    }
}
