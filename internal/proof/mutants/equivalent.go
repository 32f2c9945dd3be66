package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// readEquivalents reads why some mutations change nothing that a test could see, by key. A key is a line of its own; the reason
// is in the lines below, which are indented. Keys one below another have one reason. What follows a # at the start of a line
// is for readers.
func readEquivalents(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	reasons := map[string]string{}
	var keys []string
	said := false
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		reason := strings.TrimSpace(line)
		switch {
		case reason == "" || strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if len(keys) == 0 {
				return nil, fmt.Errorf("%s:%d: a reason without a mutation", path, n)
			}
			for _, k := range keys {
				reasons[k] = strings.TrimSpace(reasons[k] + " " + reason)
			}
			said = true
		default:
			if said {
				keys, said = nil, false
			}
			keys = append(keys, reason)
		}
	}
	if len(keys) > 0 && !said {
		return nil, fmt.Errorf("%s: no reason for %q", path, keys[len(keys)-1])
	}
	return reasons, lines.Err()
}
