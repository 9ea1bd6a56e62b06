// Asks the search of a folder of rustdoc: prints each query with the names of its results, separated by tabs.
const fs = require("node:fs");
const path = require("node:path");

const [folder, ...queries] = process.argv.slice(1);

function script(start) {
  const files = path.join(folder, "static.files");
  return require(path.join(files, fs.readdirSync(files).find(name => name.startsWith(start) && name.endsWith(".js"))));
}

// The files of the index call functions that the search has made global.
function run(name) {
  (0, eval)(fs.readFileSync(path.join(folder, "search.index", `${name}.js`), "utf8"));
}

async function main() {
  globalThis.nonnull = value => value;
  const { Stringdex, RoaringBitmap } = script("stringdex-");
  const { docSearch, DocSearch } = await script("search-").initSearch(Stringdex, RoaringBitmap, {
    loadRoot: callbacks => {
      Object.assign(globalThis, callbacks);
      run("root");
    },
    loadTreeByHash: run,
    loadDataByNameAndHash: (name, hash) => run(`${name}/${hash}`),
  });
  for (const query of queries) {
    const found = [];
    for await (const { item, parent } of (await docSearch.execQuery(DocSearch.parseQuery(query), null, null)).others) {
      found.push(parent ? `${parent.name}::${item.name}` : item.name);
    }
    console.log([query, ...found].join("\t"));
  }
}

main();
