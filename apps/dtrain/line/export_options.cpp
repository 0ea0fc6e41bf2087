// The options of dtrain export.
#include "dtrain/base/error.hpp"
#include "line/command_table.hpp"

namespace dtrain {

void CommandTable::add_export() {
  CLI::App& app = command(
      app_, "export", "a trained network as an ONNX file, with its classes and how pictures are prepared for it",
      "--checkpoint PATH --output FILE.onnx [KEY=VALUE …] [options]",
      {{"dtrain export --checkpoint runs/chips --output chips.onnx", "the best weights of a run"},
       {"dtrain export --checkpoint runs/chips --output chips.onnx --with-input raw --force",
        "for pixels as files hold them; replaces the file"},
       {"dtrain export --checkpoint runs/chips/best.safetensors --output net.onnx",
        "the weights file alone is enough"}},
      [this] {
        export_.config = with_words(export_.config, false);
        const bool prints = export_.config.print_config && !export_.checkpoint.empty();
        if (export_.config.print_schema || prints) return export_;
        if (export_.checkpoint.empty())
          throw UsageError("dtrain export needs --checkpoint PATH, such as runs/NAME or runs/NAME/best.safetensors");
        if (export_.output.empty()) throw UsageError("dtrain export needs --output FILE, such as net.onnx");
        return export_;
      });
  add_config(app, export_.config);
  app.add_option("--checkpoint", export_.checkpoint, kNetworkFrom)->type_name("PATH");
  app.add_option("--output", export_.output,
                 "the file to write, ending in .onnx; one that exists is refused unless --force")
      ->type_name("FILE");
  add_choice(app, "--with-input", export_.input,
             "normalised: the file takes (pixel − mean) ÷ std; raw: it takes pixel values as files hold them, 0 to 255 "
             "or those of data.image.range, and normalises them itself");
  app.add_flag("--force", export_.force, "replace the file if it exists");
}

}  // namespace dtrain
