#include <nlohmann/json.hpp>

#include "dtrain/base/text.hpp"
#include "dtrain/config/checks.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/config/schema.hpp"

namespace dtrain {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr const char* kIntroduction = R"(# Configuration

<!-- Generated from the schema (lib/dtrain/config/schema.cpp); a test compares the two. -->

A configuration is YAML: groups of keys, written as blocks or as `{key: value, …}`. Every key has a default except
`data.format` and what that format needs, so that three lines are a configuration:

```yaml
data: {format: image_folder, root: pictures}
model: {name: resnet50}
epochs: 20
```

**Sources.** Defaults < files in the order of `--config` < variables of the environment < the command line; the later
one wins. A variable `DTRAIN_CONFIG__OPTIMIZER__LEARNING_RATE` sets `optimizer.learning_rate` (`__` is the dot);
other names that begin with `DTRAIN_` are not keys. On the command line write `optimizer.learning_rate=0.0005`, or a
group such as `'batch={per_rank: 4}'`; values are YAML. Groups merge key by key; lists, `data.image_mask.mask_values` and
`data.chexpert.uncertain_labels` are replaced completely. An empty value undoes what an earlier source set: `batch.per_rank= batch.global=512`.

**Errors.** All of them are found at once, each with file, line and column, before anything starts; the exit code is
78, or 66 if a file is missing. Unknown keys, duplicate keys, `<<` merges, tags, aliases that form a cycle, numbers
with leading zeros and files above 1 MiB or 32 levels are errors. Plain anchors and aliases are allowed.

**Keys without effect** are errors: a key marked "only when" below must not be set where it has no effect, such as
`schedule.decay.patience` under cosine; one that "has an effect only when" must then keep its default. Whatever
depends on ranks or on the machine (`schedule.warmup` with one logical rank, `cuda_graphs` on a CPU) is accepted
everywhere: one file serves a laptop and a cluster.

**Variables.** `${NAME}` and `${NAME:-default}` stand for environment variables anywhere in a value, plain or
quoted (inside `{…}` and `[…]` it must be quoted: `"${NIH:-data/nih}"`). Without a default, a variable that is not set
is an error. An empty variable counts as not set if there is a default. `$${` is a literal `${`.

**Paths.** A relative path in a file starts from that file; on the command line and in the environment, and for
`output.dir` everywhere, from the working directory. `data.labels`, `data.image_mask.images`, `data.image_mask.masks`,
`data.split.files` and `data.split.folders` are under `data.root` unless they begin with `/`, `./` or `../`.

**Lengths.** A number with its unit: `5 epochs`, `400 steps`, `0.5 epochs`; times as `30 s`, `10 minutes`, `3h55m`;
`none` where it is offered.

**Numbers.** Whole numbers may be written as `1e3`. NaN and infinity are refused.

`dtrain --config F --print-config` shows what holds and where each value came from; `--print-config=minimal` shows
only what differs from the defaults; `--print-schema` prints a JSON Schema, with which editors complete and check.
)";

std::string group_of(const std::string& key) {
  const size_t dot = key.find('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string default_of(const Key& key) {
  if (!key.default_text.empty()) return key.default_text;
  return "`" + key.codec.print() + "`";
}

std::string meaning_of(const Key& key) {
  std::string meaning = key.doc;
  if (!key.only_when.empty()) meaning += " Only when " + key.only_when + ".";
  if (!key.idle_unless.empty()) meaning += " Has an effect only when " + key.idle_unless + ".";
  return meaning;
}

// Puts `leaf` at its dotted name, creating objects on the way.
void place_in(OrderedJson& root, const std::string& name, OrderedJson leaf) {
  OrderedJson* at = &root;
  const std::vector<std::string> parts = split_text(name, '.');
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    OrderedJson& group = (*at)["properties"][parts[i]];
    if (group.is_null())
      group = OrderedJson{
          {"type", {"object", "null"}}, {"additionalProperties", false}, {"properties", OrderedJson::object()}};
    at = &group;
  }
  (*at)["properties"][parts.back()] = std::move(leaf);
}

}  // namespace

std::string config_markdown() {
  std::string out = kIntroduction;
  Experiment defaults;
  const std::vector<Key> keys = describe(defaults);
  for (const Group& group : groups()) {
    out += "\n## " + (group.name.empty() ? "The run" : "`" + group.name + "`") + "\n\n" + group.doc + "\n\n";
    out += "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const Key& key : keys) {
      if (group_of(key.name) != group.name) continue;
      out += "| `" + key.name + "` | " + key.codec.type + " | " + default_of(key) + " | " + meaning_of(key) + " |\n";
    }
  }
  out += "\nA change of these keys does not change the result, so a run may be resumed with it: ";
  std::vector<std::string> free;
  for (const Key& key : keys)
    if (!key.in_fingerprint) free.push_back("`" + key.name + "`");
  return out + join(free, ", ") + ".\n";
}

std::string config_json_schema() {
  OrderedJson root{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "dtrain configuration"},
                   {"type", "object"},
                   {"additionalProperties", false},
                   {"properties", OrderedJson::object()}};
  Experiment defaults;
  for (const Key& key : describe(defaults)) {
    OrderedJson leaf = OrderedJson::parse(key.codec.json_schema);
    leaf["description"] = meaning_of(key) + " Default: " + default_of(key) + ".";
    place_in(root, key.name, std::move(leaf));
  }
  for (const Group& group : groups()) {
    if (group.name.empty()) continue;
    OrderedJson& of_group = root["properties"][group.name];
    of_group["description"] = group.doc;
    if (!group.may_be_none) continue;
    of_group["type"].push_back("string");
    of_group["pattern"] = "^none$";
  }
  return root.dump(2) + "\n";
}

}  // namespace dtrain
