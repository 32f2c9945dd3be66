package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// What must not grow, however long the cluster works: what a worker process holds, what the server holds for all of them, and the rows
// that retention bounds. Each process measures itself, and the torture measures the server.

// usage is what was in use at one time, by name.
type usage struct {
	At   int64              // µs
	Used map[string]float64 // what, and how much
}

// allowed is how much more may be in use in the last third of a series than in the first, both after a warm-up: so much, or such a share.
// The least of each third counts: load comes and goes, and what has leaked does not.
type allowed struct {
	more  float64
	share float64
}

// A pool of connections, each with a goroutine of the driver's, may come to its most only late.
var growths = map[string]allowed{
	"heap MB":       {8, 0.25}, // after a collection
	"resident MB":   {24, 0.35},
	"goroutines":    {30, 0},
	"descriptors":   {20, 0},   // open files, sockets among them
	"connections":   {20, 0},   // sockets
	"clients":       {80, 0.5}, // connections of the server, also those of lines that are dead: it does not know yet
	"rows bounded":  {400, 0.5},
	"rows of nodes": {8, 0},
}

const (
	warmUp      = 0.2              // of a series
	fewSamples  = 15               // of which no growth is told
	samples     = 60               // of a torture
	leastSample = time.Second      // between two
	mostSample  = 30 * time.Second // likewise
)

// sampleEvery is how often a torture of some length measures.
func sampleEvery(d time.Duration) time.Duration { return min(max(d/samples, leastSample), mostSample) }

// growth is what a series shows of one thing.
type growth struct {
	of, what    string
	first, last float64 // the least of the first third, and of the last
	samples     int
	tooMuch     bool
}

func (g growth) String() string {
	return fmt.Sprintf("%s: %s %.4g → %.4g (%d samples)", g.of, g.what, g.first, g.last, g.samples)
}

// growthsOf tells how what a series shows has grown, unless it is too short.
func growthsOf(of string, series []usage) (all []growth) {
	series = series[int(warmUp*float64(len(series))):]
	if len(series) < fewSamples {
		return nil
	}
	third := len(series) / 3
	for _, what := range slices.Sorted(maps.Keys(growths)) {
		first, ok1 := least(series[:third], what)
		last, ok2 := least(series[len(series)-third:], what)
		if !ok1 || !ok2 {
			continue
		}
		allow := growths[what]
		all = append(all, growth{of, what, first, last, len(series), last-first > max(allow.more, allow.share*first)})
	}
	return all
}

func least(series []usage, what string) (n float64, ok bool) {
	for _, u := range series {
		if v, measured := u.Used[what]; measured && (!ok || v < n) {
			n, ok = v, true
		}
	}
	return n, ok
}

// useOf is where a life of a process keeps its series.
func useOf(record string) string { return strings.TrimSuffix(record, ".jsonl") + ".use" }

// watchSelf has a process measure itself until ctx ends.
func watchSelf(ctx context.Context, path string, every time.Duration) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	go func() {
		defer func() { _ = file.Close() }() // each line is written at once
		for at := time.Now().Add(every); sleepUntil(ctx, at); at = time.Now().Add(every) {
			_ = json.NewEncoder(file).Encode(usage{time.Now().UnixMicro(), ownUse()}) // a series may lack one
		}
	}()
	return nil
}

// ownUse is what this process has in use.
func ownUse() map[string]float64 {
	debug.FreeOSMemory() // collects first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	used := map[string]float64{"heap MB": float64(m.HeapAlloc) / (1 << 20), "goroutines": float64(runtime.NumGoroutine())}
	var pages, resident float64
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if _, err := fmt.Sscan(string(text), &pages, &resident); err == nil {
			used["resident MB"] = resident * float64(os.Getpagesize()) / (1 << 20)
		}
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		used["descriptors"] = float64(len(files))
		sockets := 0
		for _, f := range files {
			if to, err := os.Readlink(filepath.Join("/proc/self/fd", f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
				sockets++
			}
		}
		used["connections"] = float64(sockets)
	}
	return used
}

// leaks collects what the server shows.
type leaks struct {
	mu     sync.Mutex
	server []usage
}

// Rows that something bounds. A run that its job keeps for ever, or that may not yet be deleted, is not among them.
var boundedSQL = map[string]string{
	"clients": `SELECT VARIABLE_VALUE FROM %s.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Threads_connected'`,
	"rows bounded": `SELECT COUNT(*) FROM QRTZ_RUN R STRAIGHT_JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
		WHERE R.STATE IN ('PENDING', 'RUNNING') OR J.KEEP_RUNS > 0 OR J.KEEP_FOR BETWEEN 1 AND 60000 OR J.HISTORY = 'NONE'`,
	"rows of nodes": `SELECT (SELECT COUNT(*) FROM QRTZ_NODE) + (SELECT COUNT(*) FROM QRTZ_HEARTBEAT) + (SELECT COUNT(*) FROM QRTZ_APP)`,
}

// watchServer measures the server until ctx ends.
func (t *torture) watchServer(ctx context.Context) {
	var schema string
	for _, name := range []string{"information_schema", "performance_schema"} { // MariaDB, MySQL
		var any string
		if t.db.QueryRowContext(ctx, fmt.Sprintf(boundedSQL["clients"], name)).Scan(&any) == nil {
			schema = name
			break
		}
	}
	every := sampleEvery(t.duration)
	for at := time.Now().Add(every); sleepUntil(ctx, at) && at.Before(t.until); at = time.Now().Add(every) {
		used := map[string]float64{}
		for what, query := range boundedSQL {
			if what == "clients" {
				if schema == "" {
					continue
				}
				query = fmt.Sprintf(query, schema)
			}
			try, cancel := context.WithTimeout(ctx, operation)
			var n float64
			if t.db.QueryRowContext(try, query).Scan(&n) == nil { // a server that is away has nothing in use
				used[what] = n
			}
			cancel()
		}
		t.leaks.mu.Lock()
		t.leaks.server = append(t.leaks.server, usage{time.Now().UnixMicro(), used})
		t.leaks.mu.Unlock()
	}
}

// grown tells how what was in use has grown: of each life of each process, and of the server.
func (t *torture) grown() (all []growth, err error) {
	files, err := filepath.Glob(filepath.Join(t.dir, "*.use"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		series, err := readSeries(path, t.until)
		if err != nil {
			return nil, err
		}
		all = append(all, growthsOf(strings.TrimSuffix(filepath.Base(path), ".use"), series)...)
	}
	t.leaks.mu.Lock()
	defer t.leaks.mu.Unlock()
	return append(all, growthsOf("the server", t.leaks.server)...), nil
}

// readSeries reads what a life of a process has measured until a time. Its last line may be cut off by a kill.
func readSeries(path string, until time.Time) (series []usage, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var u usage
		if json.Unmarshal(lines.Bytes(), &u) == nil && u.At <= until.UnixMicro() {
			series = append(series, u)
		}
	}
	return series, lines.Err()
}

// reportUse prints how what was in use has grown, and fails for what has grown too much.
func (j *judge) reportUse(ctx context.Context) error {
	all, err := j.t.grown()
	if err != nil {
		return fmt.Errorf("what was in use: %w", err)
	}
	var found []finding
	longest := map[string]int{}
	for _, g := range all {
		longest[g.what] = max(longest[g.what], g.samples)
	}
	for _, g := range all {
		if g.tooMuch {
			found = append(found, finding{what: "growth", at: j.t.until, detail: g.String()})
		}
		if g.of == "the server" || g.samples > longest[g.what]/2 {
			j.t.note("in use by %s", g)
		}
	}
	if len(found) > 0 {
		return j.fail(ctx, found)
	}
	return nil
}

// account prints what was paid, by the program's own tables: what was asked for is what the accounts say.
func (j *judge) account(ctx context.Context) error {
	var sums struct {
		Payments int64 `db:"PAYMENTS"`
		Balance  int64 `db:"BALANCE"`
	}
	err := j.db.GetContext(ctx, &sums, `SELECT SUM(PAYMENTS) AS PAYMENTS, SUM(BALANCE) AS BALANCE FROM TORTURE_ACCOUNT`)
	if err != nil {
		return fmt.Errorf("the account: %w", err)
	}
	j.t.note("the account: %d payments of %d in all, each asked for once and paid once", sums.Payments, sums.Balance)
	return nil
}
