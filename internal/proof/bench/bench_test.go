package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// TestMain makes this binary a node when a measurement starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "a-node" {
		if err := testNode(os.Args[2:]); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func testNode(args []string) error {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	o := NodeOptions{DSN: os.Getenv(DSNEnv)}
	flags.StringVar(&o.ID, "id", "", "")
	flags.IntVar(&o.Workers, "workers", 0, "")
	flags.DurationVar(&o.Poll, "poll", 0, "")
	flags.IntVar(&o.Asked.Rate, "ask", 0, "")
	flags.BoolVar(&o.Asked.InTx, "in-tx", false, "")
	flags.BoolVar(&o.Asked.Client, "client", false, "")
	for name, at := range map[string]*time.Time{"from": &o.From, "until": &o.Until} {
		flags.Func(name, "", func(text string) error {
			ms, err := strconv.ParseInt(text, 10, 64)
			*at = time.UnixMilli(ms)
			return err
		})
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return Node(ctx, o, os.Stdout)
}

// TestATinyBenchmark sees that everything can be measured but what takes long: a killed node, and a node at rest.
func TestATinyBenchmark(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 13 seconds")
	}
	var said bytes.Buffer
	r, err := carryOut(t.Context(), Options{
		Node: []string{os.Args[0], "a-node"}, Parts: []string{"floor", "claims", "startup"}, Workers: 100, Progress: &said,
	}, extent{
		floorFor: 50 * time.Millisecond, floorRows: 1000, floorBatches: []int{100}, floorConnections: []int{2}, floorRacers: []int{2},
		nodes: []int{1}, heavy: []heavyLoad{{qrtz.HistoryAll, 200}}, tries: 1, settle: time.Second, window: 2 * time.Second,
		starts: 1,
	})
	t.Log(said.String())
	require.NoError(t, err)
	assert.Len(t, r.Floor, 3)
	for _, f := range r.Floor {
		assert.Positive(t, f.Fires)
	}
	require.Len(t, r.Claims, 1)
	assert.Positive(t, r.Claims[0].Most.Late.Fires)
	assert.Zero(t, r.Claims[0].Most.Late.Early)
	assert.Positive(t, r.Claims[0].Most.Statements)
	assert.Positive(t, r.Startup.FirstFireMs)
	assert.Contains(t, r.Conditions["settings"], "innodb_flush_log_at_trx_commit=1")
}

// TestATinyGrowth sees that one load can be measured with finished runs in the table, and a pass at rest.
func TestATinyGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 12 seconds")
	}
	var said bytes.Buffer
	r, err := carryOut(t.Context(), Options{
		Node: []string{os.Args[0], "a-node"}, Parts: []string{"growth/history", "growth/pass"}, Workers: 100, Progress: &said,
	}, extent{growing: growthExtent{
		history: []int{1000}, historyLoad: 200, settle: time.Second, window: 2 * time.Second, jobs: 100, pending: 100, passes: 3,
	}})
	t.Log(said.String())
	require.NoError(t, err)
	require.Len(t, r.Growth, 1)
	assert.Equal(t, 200, r.Growth[0].Offered)
	assert.InDelta(t, 200, r.Growth[0].Fires, 20)
	assert.Zero(t, r.Growth[0].Late.Early)
	require.Len(t, r.PassAtRest, 3)
	for _, p := range r.PassAtRest {
		assert.Positive(t, p.Statements)
	}
	assert.Nil(t, r.Startup, "only what was asked for")
}

func TestPartsThatAreMeasured(t *testing.T) {
	for _, c := range []struct {
		parts []string
		part  string
		asked bool
	}{
		{nil, "floor", true},
		{nil, "growth/rest", false},
		{[]string{"growth"}, "growth/rest", true},
		{[]string{"growth"}, "rest", false},
		{[]string{"growth/rest"}, "growth/rest", true},
		{[]string{"growth/rest"}, "growth/pass", false},
	} {
		o := Options{Parts: c.parts}
		assert.Equal(t, c.asked, o.asked(c.part), "%v: %s", c.parts, c.part)
	}
}

func TestAnUnknownPart(t *testing.T) {
	_, err := Run(t.Context(), Options{Parts: []string{"flor"}})
	require.ErrorContains(t, err, `"flor": want some of floor, distance, claims`)
}

// A machine that keeps up with a number of fires a second, and starts as many when there are more.
func searched(capacity float64, first, tries int) (kept int, offered []int) {
	s := search{first: first, tries: tries}
	for load := s.next(); load > 0; load = s.next() {
		offered = append(offered, load)
		s.note(Step{Offered: load, Fires: min(capacity, float64(load)), KeptUp: float64(load) <= capacity})
	}
	return s.kept, offered
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		capacity float64
		kept     int
		offered  []int
	}{
		{20_500, 19_000, []int{30_000, 19_000, 24_000, 21_000}},
		{70_000, 68_000, []int{30_000, 45_000, 68_000, 100_000}},
		{100, 0, []int{30_000, 18_000, 11_000, 6_600, 5_600, 4_800, 4_100, 3_500}},
	} {
		kept, offered := searched(c.capacity, 30_000, 4)
		assert.Equal(t, c.offered, offered)
		assert.Equal(t, c.kept, kept)
	}
	_, offered := searched(20_500, 30_000, 100)
	assert.Less(t, len(offered), 7, "it ends when it is near enough")
}

func TestRoundLoad(t *testing.T) {
	for load, want := range map[float64]int{0.3: 1, 7.9: 7, 123: 120, 19_512: 20_000, 23_400: 23_000} {
		assert.Equal(t, want, roundLoad(load), load)
	}
}

func TestLateness(t *testing.T) {
	h := newHistogram()
	for ms := range int64(1000) {
		require.NoError(t, h.RecordValue(1000*(ms+1)))
	}
	late := summary{Fires: 1000, Early: 2, Late: h.Export()}.lateness()
	assert.InEpsilon(t, 500, late.P50, 0.02)
	assert.InEpsilon(t, 990, late.P99, 0.02)
	assert.InEpsilon(t, 1000, late.Max, 0.02)
	assert.EqualValues(t, 2, late.Early)
	last := late.Curve[len(late.Curve)-1]
	assert.InDelta(t, 99.9, last.Percent, 0, "a thousand fires tell nothing beyond")
}

func TestSummariesAddUp(t *testing.T) {
	now := time.Now()
	var sum summary
	for _, one := range []summary{
		{Fires: 1, CPU: time.Second, HeapMB: 3},
		{Fires: 2, CPU: time.Second, HeapMB: 2, First: now},
		{Fires: 3, CPU: time.Second, First: now.Add(-time.Minute)},
	} {
		sum.add(one)
	}
	assert.Equal(t, summary{Fires: 6, CPU: 3 * time.Second, HeapMB: 3, First: now.Add(-time.Minute)}, sum)
}

func TestWhatProcSays(t *testing.T) {
	assert.Equal(t, 1500*time.Millisecond, parseStat("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 50 0 0"))
	assert.Zero(t, parseStat("7 (a"))
	assert.Equal(t, "AMD EPYC", lineOf("processor\t: 0\nmodel name\t: AMD EPYC\n", "model name"))
	mounts := "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\ntmpfs /tmpx xfs rw 0 0\n"
	assert.Equal(t, "tmpfs", mountOf(mounts, "/tmp/x"))
	assert.Equal(t, "ext4", mountOf(mounts, "/var"))
}

func TestNumbers(t *testing.T) {
	assert.Equal(t, 1, bytes.Count([]byte(numbers(1)), []byte("* D")))
	assert.Equal(t, 1, bytes.Count([]byte(numbers(10)), []byte("* D")))
	assert.Equal(t, 2, bytes.Count([]byte(numbers(11)), []byte("* D")))
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0163: "0.0163", 0.53: "0.53", 1.5: "1.50", 12.34: "12.3", 42: "42", 123.4: "123", 1234.5: "1,234", 1_234_567: "1,234,567"} {
		assert.Equal(t, want, figure(v))
	}
}

func sample() *Report {
	step := Step{Offered: 30_000, Fires: 20_000, Statements: 0.016}
	return &Report{
		At: time.Unix(1_800_000_000, 0), Conditions: map[string]string{"server": "MariaDB <10.11>"},
		Floor: []Floor{{What: floorHistory, Batch: 500, Connections: 2, Fires: 30_000}, {What: floorNone, Batch: 500, Connections: 2, Fires: 100_000}},
		Claims: []Claims{
			{Nodes: 1, History: "ALL", Heavy: step, Most: step, Kept: Step{Offered: 19_000}},
			{Nodes: 3, History: "ALL", Heavy: step, Most: step},
			{Nodes: 1, History: "NONE", Heavy: step, Most: step},
		},
		Lateness: []Lateness{{Nodes: 3, Load: "200 a second", Late: Late{Curve: []Point{{0, 0.1}, {50, 0.5}, {99.9, 12}}}}},
		Failover: []Failover{{What: "killed"}}, Startup: &Startup{FirstFireMs: 12}, Memory: &Memory{Planned: 100_000}, Rest: []Rest{{Stored: 10}},
	}
}

func TestSVGIsXML(t *testing.T) {
	for name, r := range map[string]*Report{"nothing": {}, "all": sample()} {
		var out bytes.Buffer
		require.NoError(t, r.SVG(&out))
		d := xml.NewDecoder(bytes.NewReader(out.Bytes()))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err, name)
			}
		}
		assert.NotContains(t, out.String(), "NaN")
		assert.NotContains(t, out.String(), "Inf")
	}
}

func TestTables(t *testing.T) {
	var text, markdown, data bytes.Buffer
	r := sample()
	require.NoError(t, r.Print(&text))
	require.NoError(t, r.Markdown(&markdown))
	require.NoError(t, json.NewEncoder(&data).Encode(r))
	assert.Regexp(t, `1 +all +19,000 +20,000 of 30,000 +20,000 +1\.50 ×`, text.String())
	assert.Contains(t, markdown.String(), "| 1 | all | 19,000 | 20,000 of 30,000 | 20,000 | 1.50 × |")
	assert.Contains(t, markdown.String(), "| 1 | none | 0 | 20,000 of 30,000 | 20,000 | 5.00 × |")
	var back Report
	require.NoError(t, json.Unmarshal(data.Bytes(), &back))
	assert.Equal(t, r.Claims, back.Claims)
}
