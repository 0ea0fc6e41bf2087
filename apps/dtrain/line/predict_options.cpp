// The options of dtrain predict. What they mean to the program is described beside their fields (command_line.hpp).
#include "dtrain/base/error.hpp"
#include "line/command_table.hpp"
#include "line/help_page.hpp"

namespace dtrain {

// `inputs`: how many --input there are.
static void require_named(const PredictCommand& predict, size_t inputs) {
  if (predict.checkpoints.empty())
    throw UsageError("dtrain predict needs --checkpoint PATH, such as runs/NAME or runs/NAME/best.safetensors");
  if (predict.input.empty())
    throw UsageError(
        "dtrain predict needs --input PATH: a folder of pictures, a picture, a .txt list, a .csv table or a record "
        "file");
  if (inputs > 1)
    throw UsageError("--input is given " + std::to_string(inputs) +
                     " times, and a prediction has one: name a folder that holds all, or a .txt list of the pictures");
  if (predict.output.empty())
    throw UsageError("dtrain predict needs --output DIR, a folder that is new or empty, such as scores");
}

void CommandTable::add_predict() {
  CLI::App& app = command(
      app_, "predict",
      "predictions of a trained network for pictures without labels: a table of probabilities, and for segmentation "
      "masks as PNG of each picture's own size",
      "--checkpoint PATH --input PATH --output DIR [KEY=VALUE …] [options]",
      {{"dtrain predict --checkpoint runs/chips --input sample/chips/good --output scores",
        "every picture of a folder"},
       {"dtrain predict --checkpoint runs/cells/best.safetensors --input cell.png --output cell",
        "one picture; the weights file alone is enough"},
       {"mpirun -np 2 --bind-to none dtrain predict --checkpoint runs/cells --input list.txt --output masks",
        "the pictures of a list, by 2 processes, with the same bytes"},
       {"dtrain predict --checkpoint runs/chips --input visits.csv --column picture --output visits",
        "the pictures that a column of a table names"},
       {"dtrain predict --checkpoint runs/chips --checkpoint runs/two --mirror --input sample/chips --output mean",
        "the mean of two networks and of mirrored views"},
       {"dtrain predict --checkpoint runs/cells --input sample/cells/images --output outlines --overlay --scores",
        "masks, their outlines over the pictures, and probabilities"},
       {"dtrain predict --checkpoint runs/xray --input sample/xray --output seen --cam=Pneumonia",
        "where the network sees a pneumonia"}},
      [this] {
        predict_.config = with_words(predict_.config, false);
        predict_.progress = progress();
        const bool prints = predict_.config.print_config && !predict_.checkpoints.empty();
        if (predict_.config.print_schema || prints) return predict_;
        require_named(predict_, app_.get_subcommand("predict")->count("--input"));
        return predict_;
      });
  add_config(app, predict_.config);
  app.add_option("--checkpoint", predict_.checkpoints,
                 kNetworkFrom + std::string("; given several times: the mean of the networks' probabilities"))
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("PATH");
  app.add_option(
         "--input", predict_.input,
         "folder (all pictures under it), a picture, a .txt list with one path per line or a .csv table (--column), "
         "relative to the list or table, a TFRecord file or tar archive, or a folder of these")
      ->take_last()
      ->type_name("PATH");
  app.add_option("--column", predict_.column, "the table's column of paths (default: path)")->type_name("NAME");
  app.add_option("--output", predict_.output,
                 "folder of predictions.csv and masks/: new, empty, or begun by the same command, which then continues")
      ->type_name("DIR");
  add_what_is_predicted(app);
  add_choice(
      app, "--on-bad", predict_.on_bad,
      "pictures that cannot be read: skip: named, the others done, exit code 65 at the end; fail: end at the first");
  app.add_flag("--json", predict_.json, kJson);
  add_progress(app);
}

// How pictures are seen, and what is made of the scores.
void CommandTable::add_what_is_predicted(CLI::App& app) {
  add_count(app, "--batch", predict_.batch,
            "pictures at a time (default: as in evaluation); the last bits depend on it");
  app.add_flag("--mirror", predict_.mirror,
               "the mean over mirrored views too: left to right, for masks also top to bottom and both");
  app.add_option("--tile-overlap", predict_.tile_overlap,
                 "masks of a network with data.image.window: how much of a tile the next one covers at least (default: "
                 "0.5)")
      ->check(number_within(0.0, 0.9))
      ->type_name("SHARE");
  app.add_flag("--overlay", predict_.overlay, "masks: their outlines over the pictures, in overlays/");
  app.add_flag("--scores", predict_.scores, "masks: each class's probabilities as 16-bit PNG, in scores/CLASS/");
  app.add_flag("--cam{highest}", predict_.cam,
               "class activation maps over the pictures, in cams/: of the class with the highest score; =NAME: of that "
               "class; for networks that end in global average pooling")
      ->type_name("[=NAME]");
  app.add_option("--threshold", predict_.threshold,
                 "masks: a pixel is of the most probable class whose probability is above T (default: 0.5, or where "
                 "the loss has classes that exclude each other, background's); labels: 1 "
                 "from T on, in columns label_NAME (default: what eval has chosen, else no such columns)")
      ->check(number_within(0.0, 1.0))
      ->type_name("T");
}

}  // namespace dtrain
