# Prints the targets of a Makefile: the line `## text` before each, under the `##@ title` of its section.
/^##@ / { printf "%s%s\n", titles++ ? "\n" : "", substr($0, 5); next }
/^## / { text = substr($0, 4); next }
/^[a-z][a-z0-9-]*:/ && text != "" {
  printf "  make %-19s %s\n", substr($1, 1, length($1) - 1), text
  text = ""
}
