//! The public items of a crate with their aliases, read from its sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, Fields, File, ImplItem, Item as Syntax, ItemEnum, ItemImpl, ItemTrait, Lit, LitStr,
    Meta, Token, TraitItem, Type, UseTree, Visibility,
};

/// A public item, or a public member of a type.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: &'static str,
    /// A member follows its type: `Delta::Added`.
    pub(crate) name: String,
    /// Names by which rustdoc's search finds it, too.
    pub(crate) aliases: Vec<String>,
}

/// `pub use` of one name. The name of a glob is `*`.
#[derive(Debug)]
pub(crate) struct Reexport {
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
}

/// A module with all that it has, apart from tests.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) items: Vec<Item>,
    pub(crate) reexports: Vec<Reexport>,
    pub(crate) children: BTreeMap<String, Module>,
    pub(crate) is_public: bool,
}

impl Module {
    /// Reads a crate from its first file.
    pub(crate) fn of_crate(file: &Path) -> Result<Self, String> {
        let folder = file.parent().unwrap_or(file);
        Self::of_file(file, folder)
    }

    /// Reads a module from its file. Those below it are in the folder.
    fn of_file(file: &Path, folder: &Path) -> Result<Self, String> {
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = fs::read_to_string(file).map_err(|error| problem(&error))?;
        let parsed: File = syn::parse_file(&text).map_err(|error| problem(&error))?;
        let mut module = Self { is_public: true, ..Self::default() };
        module.extend(parsed.items, folder)?;
        Ok(module)
    }

    /// Whether the item is no member of a private type.
    pub(crate) fn has_type_of(&self, item: &Item) -> bool {
        let of_type = item.name.split("::").next();
        self.items.iter().any(|item| Some(item.name.as_str()) == of_type)
    }

    fn extend(&mut self, items: Vec<Syntax>, folder: &Path) -> Result<(), String> {
        for item in items {
            match item {
                Syntax::Const(item) => self.add("const", &item.vis, &item.ident, &item.attrs),
                Syntax::Fn(item) => self.add("fn", &item.vis, &item.sig.ident, &item.attrs),
                Syntax::Type(item) => self.add("type", &item.vis, &item.ident, &item.attrs),
                Syntax::Struct(item) => {
                    self.add("struct", &item.vis, &item.ident, &item.attrs);
                    if is_public(&item.vis) {
                        self.fields(&item.ident.to_string(), &item.fields);
                    }
                }
                Syntax::Enum(item) => self.variants(&item),
                Syntax::Trait(item) => self.methods(&item),
                Syntax::Impl(item) => self.inherent(&item),
                Syntax::Use(item) if is_public(&item.vis) => self.reexport(&item.tree, &[]),
                Syntax::Mod(item) => self.child(item, folder)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, kind: &'static str, visible: &Visibility, name: &syn::Ident, attributes: &[Attribute]) {
        if is_public(visible) {
            self.items.push(Item { kind, name: name.to_string(), aliases: aliases(attributes) });
        }
    }

    fn member(&mut self, kind: &'static str, of: &str, name: &syn::Ident, attributes: &[Attribute]) {
        self.items.push(Item { kind, name: format!("{of}::{name}"), aliases: aliases(attributes) });
    }

    fn fields(&mut self, of: &str, fields: &Fields) {
        for field in fields.iter().filter(|field| is_public(&field.vis)) {
            if let Some(name) = &field.ident {
                self.member("field", of, name, &field.attrs);
            }
        }
    }

    fn variants(&mut self, item: &ItemEnum) {
        self.add("enum", &item.vis, &item.ident, &item.attrs);
        for variant in item.variants.iter().filter(|_| is_public(&item.vis)) {
            self.member("variant", &item.ident.to_string(), &variant.ident, &variant.attrs);
        }
    }

    fn methods(&mut self, item: &ItemTrait) {
        self.add("trait", &item.vis, &item.ident, &item.attrs);
        for method in item.items.iter().filter(|_| is_public(&item.vis)) {
            if let TraitItem::Fn(method) = method {
                self.member("method", &item.ident.to_string(), &method.sig.ident, &method.attrs);
            }
        }
    }

    fn inherent(&mut self, item: &ItemImpl) {
        let Type::Path(of) = &*item.self_ty else { return };
        let Some(of) = of.path.segments.last().filter(|_| item.trait_.is_none()) else { return };
        for method in &item.items {
            match method {
                ImplItem::Fn(method) if is_public(&method.vis) => {
                    self.member("method", &of.ident.to_string(), &method.sig.ident, &method.attrs);
                }
                _ => {}
            }
        }
    }

    fn reexport(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.reexport(&path.tree, &with(&path.ident)),
            UseTree::Name(name) => {
                self.reexports.push(Reexport { path: with(&name.ident), name: name.ident.to_string() });
            }
            UseTree::Rename(name) => {
                self.reexports.push(Reexport { path: with(&name.ident), name: name.rename.to_string() });
            }
            UseTree::Glob(_) => self.reexports.push(Reexport { path: before.to_vec(), name: "*".to_owned() }),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.reexport(tree, before)),
        }
    }

    /// Adds a module below this one, unless it is one of tests, or its file has another name.
    fn child(&mut self, item: syn::ItemMod, folder: &Path) -> Result<(), String> {
        let is_left_out = |attribute: &Attribute| {
            let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
            attribute.path().is_ident("path")
                || (attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test))
        };
        if item.attrs.iter().any(is_left_out) {
            return Ok(());
        }
        let name = item.ident.to_string();
        let below = folder.join(&name);
        let mut child = match item.content {
            Some((_, items)) => {
                let mut child = Self::default();
                child.extend(items, &below)?;
                child
            }
            None => {
                let file = below.with_extension("rs");
                Self::of_file(&if file.exists() { file } else { below.join("mod.rs") }, &below)?
            }
        };
        child.is_public = is_public(&item.vis);
        self.add("mod", &item.vis, &item.ident, &item.attrs);
        self.children.insert(name, child);
        Ok(())
    }
}

fn is_public(visible: &Visibility) -> bool {
    matches!(visible, Visibility::Public(_))
}

/// The names in `#[doc(alias = "..")]` and `#[doc(alias("..", ".."))]`.
fn aliases(attributes: &[Attribute]) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let list = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        for meta in list.into_iter().flatten().filter(|meta| meta.path().is_ident("alias")) {
            match meta {
                Meta::NameValue(value) => {
                    if let Expr::Lit(literal) = value.value
                        && let Lit::Str(text) = literal.lit
                    {
                        found.push(text.value());
                    }
                }
                Meta::List(list) => {
                    let names = list.parse_args_with(Punctuated::<LitStr, Token![,]>::parse_terminated);
                    found.extend(names.into_iter().flatten().map(|name| name.value()));
                }
                Meta::Path(_) => {}
            }
        }
    }
    found
}
