// Package words holds one test: code, help and docs use the words of the glossary in docs/concepts.md, and not those that
// they replace.
package words

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

type word struct {
	retired string // a pattern, for one line
	say     string
	except  []exception
}

type exception struct {
	path   *regexp.Regexp // of the file
	line   string         // a part of the line
	reason string
}

var in = regexp.MustCompile

var words = []word{
	{retired: `(?i)\bsettl(e|es|ed|ing)\b`, say: "resolve a claim in doubt; hand back what was not started", except: []exception{
		{in(`^internal/proof/(bench|torture)/`), "", "how long a cluster takes to run evenly, before it is measured or judged"},
	}},
	{retired: `(?i)orphan`, say: "without app, without job; a run is lost"},
	{retired: `(?i)\bby hand\b|\bmanually\b`, say: "by SQL"},
	{retired: `(?i)\banew\b`, say: "again"},
	{
		retired: `(?i)\b(nobody|somebody|anybody|whoever)\b`, say: "name the actor: a person, another node, no node, another transaction",
		except: []exception{{in(`^internal/servers/galera/`), "as nobody", "the name of a user"}},
	},
	{retired: `\b(go|goes|going|went) on\b`, say: "continue; happens"},
	{retired: `(?i)('s|whose|its|the) turn\b|\bturnLimit`, say: "the lock-time window", except: []exception{
		{in(`^cron/field.go$`), "across the turn", "where a range wraps around"},
	}},
	{retired: `(?i)housekeep|janitor`, say: "the misfire handler, its pass"},
	{retired: `(?i)host ?ip`, say: "node id; in Go NodeID", except: []exception{
		{in(`^internal/proof/claimtime/engine_earlier.go$`), "", "it builds in earlier states of the repository, where the field has this name"},
	}},
	{retired: `(?i)\bwaiting runs?\b|\bwait(ing|s)? for pending\b`, say: "pending"},
	{
		retired: `(?i)\bremov(e|es|ed|ing) (\w+ )?(job|schedule|execute|node|app)s?\b|\bRemoveJob|^- .Remove. of`, say: "delete",
		except: []exception{{in(`^CHANGELOG.md$`), "`Remove` of a job is `Delete`", "it says what to write instead"}},
	},
	{retired: `(?i)\brepair`, say: "move; begin, break, heal"},
	{retired: `\b[Tt]riggers?\b`, say: "execute, schedule; fire", except: []exception{
		{in(`^docs/(reliability|runs)\.md$|^schema/errors.go$`), "", "triggers of the database"},
	}},
	{retired: `(?i)\bidentit(y|ies)\b`, say: "instance", except: []exception{
		{in(`^node/`), "", "what a process is known by on its machine: boot, namespace and process id. An instance is one life of a node"},
	}},
	{retired: `(?i)stranded`, say: "stuck", except: []exception{
		{in(`^docs/reliability.md$|^internal/proof/torture/`), "", "a finding of the torture: a claim that was neither started nor handed back"},
	}},
	{retired: `\bas ever\b|\bunless nobody\b|\btold from noise\b`, say: "plain English"},
}

// The third column of the glossary has the retired words, beside those to say.
var glossary = regexp.MustCompile(`^(\| .* \| .* \|) [^|]* \|$`)

func TestRetiredWordsAreNotUsed(t *testing.T) {
	lines := read(t)
	require.Greater(t, len(lines), 300, "files")
	for _, w := range words {
		retired := regexp.MustCompile(w.retired)
		var uses []string
		for path, text := range lines {
			for i, line := range text {
				if retired.MatchString(line) && !w.excepted(path, line) {
					uses = append(uses, fmt.Sprintf("%s:%d: %s", path, i+1, strings.TrimSpace(line)))
				}
			}
		}
		slices.Sort(uses)
		assert.Empty(t, uses, "%s; say: %s", w.retired, w.say)
	}
}

func (w word) excepted(path, line string) bool {
	return slices.ContainsFunc(w.except, func(e exception) bool {
		return strings.Contains(line, e.line) && e.path.MatchString(path)
	})
}

// read reads all code and pages, line by line. Logs of runs, what old releases changed and this test are left out.
func read(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && strings.HasPrefix(name, ".") || name == "testdata" || path == filepath.Join(root, "internal/proof/words") {
				return fs.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(name); (ext != ".go" && ext != ".md" && ext != ".sh") || name == "RUNS.md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		switch path {
		case "docs/concepts.md":
			for i, line := range lines {
				lines[i] = glossary.ReplaceAllString(line, "$1")
			}
		case "CHANGELOG.md":
			lines = newest(lines)
		}
		files[path] = lines
		return nil
	}))
	return files
}

// newest is the part of the changelog above the second release.
func newest(lines []string) []string {
	releases := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "## ") {
			if releases++; releases == 2 {
				return lines[:i]
			}
		}
	}
	return lines
}
