# shellcheck shell=sh
# Sourced by the programs of a bundle, which first set _top to its folder: names the bundle's parts to Open MPI and finds
# LibTorch. Every start of dtrain runs this, so it uses only shell built-ins and takes 2 ms. Names begin with _, because
# the program would otherwise get a changed value of a variable that the user has exported.

# refuse CODE TEXT: prints the last line in dtrain's form, and ends. One rank of a host prints; the others wait, because
# a launcher that sees a rank end kills the rest, perhaps before that one has printed.
refuse() {
  _rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-}}}
  if [ "${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${MPI_LOCALRANKID:-0}}}" = 0 ]; then
    printf 'dtrain: error %s%s: %s\n' "$1" "${_rank:+ [rank $_rank @ $(uname -n)]}" "$2" >&2
  else
    sleep 3
  fi
  exit "$1"
}

# without_empty LIST SEPARATORS: sets _list to LIST without empty entries, which would stand for the working directory.
without_empty() {
  _rest=$1: _list=''
  while [ -n "$_rest" ]; do
    # shellcheck disable=SC2295 # a pattern
    _entry=${_rest%%$2*} _rest=${_rest#*$2}
    [ -z "$_entry" ] || _list=$_list${_list:+:}$_entry
  done
}

# Many profiles set LIBRARIES=/mine:$LIBRARIES although it was empty, and so does Open MPI on other hosts: files in the
# folder where a job is started would then be loaded or run.
clean_search_paths() {
  if [ -n "${LD_LIBRARY_PATH:-}" ]; then
    without_empty "$LD_LIBRARY_PATH" '[:;]'
    LD_LIBRARY_PATH=$_list
  fi
  if [ -n "${PATH:-}" ]; then
    without_empty "$PATH" :
    PATH=${_list:-/usr/bin:/bin}
  fi
}

# By these Open MPI, PMIx and hwloc find their own plugins and help texts, and not the node's, which may be of any
# version. They replace what another mpirun that started us has set for its own libmpi. hwloc needs no plugins.
use_open_mpi() {
  : "${_top:?names the folder of the bundle}"
  clean_search_paths
  OPAL_PREFIX=$_top/lib/openmpi
  OPAL_SYSCONFDIR=$OPAL_PREFIX/etc
  PMIX_INSTALL_PREFIX=$OPAL_PREFIX
  PMIX_PKGLIBDIR=$OPAL_PREFIX/lib/pmix
  PMIX_PKGDATADIR=$OPAL_PREFIX/share/pmix
  HWLOC_PLUGINS_PATH=$OPAL_PREFIX/lib/hwloc
  export OPAL_PREFIX OPAL_SYSCONFDIR PMIX_INSTALL_PREFIX PMIX_PKGLIBDIR PMIX_PKGDATADIR HWLOC_PLUGINS_PATH
}

# is_trusted TORCH: anybody may have put a LibTorch beside a bundle in /tmp. It is used only if it belongs to root, this
# user or the owner of the bundle, and nobody else may write to it or replace it.
is_trusted() {
  [ -z "$(find "$_top/.." "$1" "$1/lib" "$1/lib/libtorch_cpu.so" -maxdepth 0 \( \
    ! -user 0 ! -user "$(id -u)" ! -user "$(stat -c %u "$_top")" -o -perm -0002 ! -perm -1000 ! -type l \) 2>&1)" ]
}

# find_torch: sets _torch to the folder that holds lib/libtorch_cpu.so.
find_torch() {
  if [ -n "${DTRAIN_TORCH:-}" ]; then
    _torch=${DTRAIN_TORCH%/}
    [ -e "$_torch/lib/libtorch_cpu.so" ] ||
      refuse 66 "DTRAIN_TORCH=$DTRAIN_TORCH is no LibTorch: lib/libtorch_cpu.so is missing there"
    case $_torch in /*) ;; *) _torch=$PWD/$_torch ;; esac
    case $_torch in *[:\;]*) refuse 66 "DTRAIN_TORCH=$DTRAIN_TORCH has a : or ; in its path, which a list of folders cannot hold" ;; esac
    return
  fi
  for _torch in "$_top/torch" "$_top/../torch" "$_top/../torch-$_built_with/torch" \
    "${DTRAIN_CACHE:-${HOME:-}/.cache/dtrain}/torch-$_built_with/torch"; do
    [ -e "$_torch/lib/libtorch_cpu.so" ] || continue
    case $_torch in "$_top/../"*) is_trusted "$_torch" || continue ;; esac
    return 0
  done
  # Python can say where a package is without loading it, which would take seconds. The current folder does not count.
  if command -v python3 >/dev/null; then
    _torch=$(python3 -c 'import sys; sys.path.pop(0)
import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) &&
      [ -e "$_torch/lib/libtorch_cpu.so" ] && return
  fi
  refuse 66 "LibTorch not found: set DTRAIN_TORCH to the folder that holds its lib/libtorch_cpu.so (site-packages/torch of \
pip install torch==$_built_with is one), or put that folder at $_top/torch"
}

# read_torch_version: sets _version from the files in _torch, "" if none names it.
read_torch_version() {
  _version='' _major='' _minor='' _patch=''
  if [ -r "$_torch/version.py" ]; then # pip's wheel
    while IFS= read -r _line; do
      case $_line in "__version__ = '"*) _version=${_line#*\'} _version=${_version%%\'*} ;; esac
    done <"$_torch/version.py"
  elif [ -r "$_torch/build-version" ]; then # the libtorch archive
    read -r _version <"$_torch/build-version"
  else
    for _header in "$_torch"/include/torch/headeronly/version.h "$_torch"/include/torch/csrc/api/include/torch/version.h; do
      [ -r "$_header" ] || continue
      while read -r _ _name _number _; do
        case $_name in
          TORCH_VERSION_MAJOR) _major=$_number ;;
          TORCH_VERSION_MINOR) _minor=$_number ;;
          TORCH_VERSION_PATCH) _patch=$_number ;;
        esac
      done <"$_header"
      _version=${_major:+$_major.$_minor.$_patch}
    done
  fi
}

# use_libtorch: finds LibTorch, refuses one that cannot be used, and puts it on LD_LIBRARY_PATH.
use_libtorch() {
  while read -r _name _number; do
    [ "$_name" != libtorch ] || _built_with=$_number
  done <"$_top/share/dtrain/bundle"
  find_torch
  read_torch_version
  _minor=${_version#*.} _minor=${_minor%%.*}
  case ${_version%%.*}.${_minor} in
    0.* | 1.* | 2.[0-5]) refuse 78 "LibTorch $_version in $_torch is too old: this build was made with $_built_with" ;;
  esac

  # NVIDIA's wheels are beside torch; otherwise a CUDA toolkit has the same libraries.
  _path='' _runtime=''
  for _folder in "$_torch"/lib "$_torch"/../nvidia/*/lib /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64; do
    [ -d "$_folder" ] || continue
    _path=$_path${_path:+:}$_folder
    for _file in "$_folder"/libcudart*.so*; do [ ! -e "$_file" ] || _runtime=found; done
  done
  LD_LIBRARY_PATH=$_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH

  # LibTorch has no stable binary interface. The version of this build needs no check; another one is checked at every
  # start (half a second): all symbols that dtrain uses must be there, not only those needed first. The program reports
  # and compares the version that it runs with: run.json, fingerprint, agreement of ranks.
  unset DTRAIN_TORCH_FOUND
  if [ "${_version%%+*}" != "$_built_with" ]; then
    DTRAIN_TORCH_FOUND=${_version:-unknown}
    export DTRAIN_TORCH_FOUND
  fi
  case $_version:$_runtime in
    "$_built_with:"* | "$_built_with+cpu:"* | "$_built_with+"*:found) return ;;
  esac
  _said=$(LD_BIND_NOW=1 "$_top/libexec/dtrain/dtrain" --version 2>&1) && return
  _said=${_said#"$_top/libexec/dtrain/dtrain: "}
  case $_said in
    *"cannot open shared object file"*) refuse 66 "LibTorch ${_version:-of unknown version} in $_torch does not start: $_said" ;;
  esac
  refuse 78 "LibTorch ${_version:-of unknown version} in $_torch does not fit this build, which was made with $_built_with: $_said"
}
