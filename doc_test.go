package qrtz_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Go code of the pages is that of the Example tests, line by line. That of the README is examples/hello, which has a test of its own.
func TestTheCodeOfThePagesCompiles(t *testing.T) {
	var page strings.Builder
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, name := range append(pages, "UPGRADING.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		page.Write(text)
	}
	var examples strings.Builder
	for _, pattern := range []string{"*_test.go", "qrtztest/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			code, err := os.ReadFile(file)
			require.NoError(t, err)
			examples.Write(code)
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page.String(), -1)
	require.Greater(t, len(blocks), 20)
	for _, block := range blocks {
		if strings.HasPrefix(block[1], "var ") || strings.HasPrefix(block[1], "func ") {
			require.Contains(t, examples.String(), block[1])
			continue
		}
		indented := strings.ReplaceAll("\t"+strings.TrimSuffix(block[1], "\n"), "\n", "\n\t")
		require.Contains(t, examples.String(), strings.ReplaceAll(indented, "\n\t\n", "\n\n"))
	}
}

// The map in docs/development.md says what a folder may import. The linter has a rule for each row, which allows just that.
func TestTheMapIsWhatTheLinterEnforces(t *testing.T) {
	page, err := os.ReadFile("docs/development.md")
	require.NoError(t, err)
	linter, err := os.ReadFile(".golangci.yml")
	require.NoError(t, err)
	const module = "github.com/qrtz-go/qrtz"
	quoted := regexp.MustCompile("`([^`]+)`")
	pattern := regexp.MustCompile(`files: \["\$\{config-path\}/([^*"]*)[^\n]*\n(?: +allow: \[([^\]]*)\]\n)? +deny:`)
	enforced := map[string][]string{}
	for _, rule := range pattern.FindAllStringSubmatch(string(linter), -1) {
		enforced[rule[1]] = []string{}
		for pkg := range strings.SplitSeq(rule[2], ", ") {
			if pkg = strings.TrimPrefix(pkg, module); pkg != "" {
				enforced[rule[1]] = append(enforced[rule[1]], strings.Replace(strings.TrimPrefix(pkg, "/"), "$", ".", 1))
			}
		}
	}
	said := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .* \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		folder := strings.TrimPrefix(row[1], ".")
		said[folder] = []string{}
		for _, pkg := range quoted.FindAllStringSubmatch(row[2], -1) {
			said[folder] = append(said[folder], pkg[1])
		}
	}
	require.Greater(t, len(said), 15)
	require.Equal(t, enforced, said)
}

// Every package that a program could import is public, as docs/stability.md says, or says that it is not.
func TestPackagesThatAreNotAPISaySo(t *testing.T) {
	public := []string{"cron", "qrtztest"}
	sources, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	said := map[string]bool{}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		comment, _, _ := strings.Cut(string(text), "\npackage ")
		comment = strings.ToLower(strings.ReplaceAll(comment, "\n// ", " "))
		said[filepath.Dir(source)] = said[filepath.Dir(source)] || strings.Contains(comment, "not part of qrtz's api.")
	}
	require.Greater(t, len(said), 10)
	for folder, saysSo := range said {
		require.NotEqual(t, slices.Contains(public, folder), saysSo, "%s: the comment above package", folder)
	}
}

// A test is looked for beside what it tests. What tests of several files share is in main_test.go, and galera_test.go is for what
// only a cluster shows.
func TestATestFileHasTheNameOfItsSource(t *testing.T) {
	for _, folder := range []string{".", "app", "execute", "misfire", "node", "poller", "pool", "run", "schema"} {
		tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, tests, folder)
		for _, test := range tests {
			switch filepath.Base(test) {
			case "main_test.go", "example_test.go", "example_handlers_test.go", "galera_test.go":
				continue
			}
			source := strings.TrimSuffix(strings.TrimSuffix(test, "_test.go"), "_linux") + ".go"
			require.FileExists(t, source, "what %s tests", test)
		}
	}
}

var (
	fencedCode = regexp.MustCompile("(?s)```.*?```")
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link       = regexp.MustCompile(`\]\(([^)]+)\)`)
	noAnchor   = regexp.MustCompile(`[^\pL\pN\- ]`)
)

// TestLinksOfThePagesLeadSomewhere checks those within the repository, with the headings they name.
func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "internal/*/*/*.md", "examples/*.md"} {
		pages, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range link.FindAllStringSubmatch(fencedCode.ReplaceAllString(string(text), ""), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				path, anchor, _ := strings.Cut(m[1], "#")
				target := page
				if path != "" {
					target = filepath.Join(filepath.Dir(page), path)
				}
				_, err := os.Stat(target)
				assert.NoError(t, err, "%s links to %s", page, m[1])
				if anchor != "" {
					assert.Contains(t, anchorsOf(t, target), anchor, "%s links to %s", page, m[1])
				}
				checked++
			}
		}
	}
	require.Greater(t, checked, 40)
}

// anchorsOf are the headings of a page as links name them.
func anchorsOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var anchors []string
	for _, m := range heading.FindAllStringSubmatch(fencedCode.ReplaceAllString(string(text), ""), -1) {
		anchors = append(anchors, strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return anchors
}
