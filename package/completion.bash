# Completion of tandem's commands, options, shipped configurations and keys, as the program lists them.
_tandem() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="$(tandem --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p') --help --version"
  elif [[ $current == -* ]]; then
    words=$(tandem "$command" --help 2>/dev/null | grep -o -e '--[a-z][a-z-]*')
  elif [ "$command" = ls ]; then
    words=$(tandem ls --help 2>/dev/null | sed -n 's/^  what TEXT:{\(.*\)}.*/\1/p' | tr , ' ')
  else
    case $command in
      train | compare | bench | validate | show | summary | cp)
        if [ "$COMP_CWORD" -eq 2 ]; then
          words=$(tandem ls configs 2>/dev/null | sed 's/ .*//')
        else
          words=$(tandem ls keys 2>/dev/null | sed 's/ .*/=/')
          compopt -o nospace
        fi
        ;;
    esac
    COMPREPLY=($(compgen -f -- "$current"))
  fi
  COMPREPLY+=($(compgen -W "$words" -- "$current"))
}
complete -o filenames -F _tandem tandem
