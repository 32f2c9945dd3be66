package execute

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qrtz-go/qrtz/run"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nasty is text that would do harm anywhere but as data.
const nasty = nastyName + "\x00\t%s"

// nastyName is as much of it as a name may be.
const nastyName = "O'Neill\\\"; DROP TABLE QRTZ_RUN;-- 🐘 ü %s ? QRTZ_"

func declaration(name string, schedules ...string) Declaration {
	d := Declaration{Name: name, Class: "tick", Options: run.Defaults()}
	for _, s := range schedules {
		d.Schedules = append(d.Schedules, DeclaredSchedule{
			Name: s, Misfire: FireOnce, CatchUpLimit: 100,
			Spec: Spec{Kind: Simple, Every: time.Second, Repeat: Forever},
		})
	}
	return d
}

// declare returns what an operator has changed.
func (f *tables) declare(now time.Time, declarations []Declaration) []Finding {
	f.T.Helper()
	apart, err := f.store.Declare(f.T.Context(), now, declarations)
	require.NoError(f.T, err)
	return apart
}

func TestDeclareIsAllOrNothing(t *testing.T) {
	f := newTables(t)
	f.declare(noon, []Declaration{declaration("known", "x")})
	f.Exec(`ALTER TABLE QRTZ_EXECUTE ADD CONSTRAINT NO_WHY CHECK (NAME <> 'why')`)
	changed := declaration("known", "x", "y")
	changed.Class = "tock"
	_, err := f.store.Declare(t.Context(), noon, []Declaration{declaration("new", "x"), changed, declaration("zz", "why")})
	require.ErrorContains(t, err, `declare job "zz": schedule "why"`)
	require.Equal(t, "known", f.Text(`SELECT GROUP_CONCAT(NAME) FROM QRTZ_JOB`))
	require.Equal(t, "tick", f.Text(`SELECT JOB_CLASS FROM QRTZ_JOB WHERE NAME = 'known'`))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE`))
}

func TestDeclareStoresLimitAndPriority(t *testing.T) {
	f := newTables(t)
	d := declaration("import", "x")
	d.Options.MaxRunning, d.Options.Priority = 3, run.PriorityHigh
	stored := `SELECT MAX_RUNNING * 10 + PRIORITY FROM QRTZ_JOB WHERE NAME = 'import'`
	f.declare(noon, []Declaration{d})
	require.Equal(t, int64(31), f.Count(stored))
	d.Options.MaxRunning, d.Options.Priority = 5, run.PriorityLow
	f.declare(noon, []Declaration{d})
	require.Equal(t, int64(49), f.Count(stored))
}

func TestEightProgramsThatStartAtOnceDeclareOneRowEach(t *testing.T) {
	f := newTables(t)
	jobs := []Declaration{declaration("b", "x", "y"), declaration("a", "x"), declaration("c", "")}
	var starts sync.WaitGroup
	for range 8 {
		starts.Go(func() {
			_, err := f.store.Declare(context.Background(), time.Now(), jobs)
			assert.NoError(t, err)
		})
	}
	starts.Wait()
	require.Equal(t, int64(3), f.Count(`SELECT COUNT(*) FROM QRTZ_JOB WHERE NAME IS NOT NULL`))
	require.Equal(t, int64(4), f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE STATE = 'EXECUTING' AND NEXT_FIRE_TIME = START_TIME`))
}

func TestNamesTheServerTakesForOneAreRefused(t *testing.T) {
	f := newTables(t)
	_, err := f.store.Declare(t.Context(), noon, []Declaration{declaration("report", "x"), declaration("Report", "x")})
	require.ErrorContains(t, err, `declare job "report": its name is that of another job, "Report", to the server`)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE`))
	_, err = f.store.Declare(t.Context(), noon, []Declaration{declaration("two", "x", "X")})
	require.Error(t, err)
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE`))
	f.declare(noon, []Declaration{declaration("report", "x")})
	other := declaration("Report", "y")
	other.Class = "Report"
	_, err = f.store.Declare(t.Context(), noon, []Declaration{other})
	require.ErrorContains(t, err, `declare job "Report": its name is that of another job, "report", to the server`)
	require.Equal(t, "report tick x", f.Text(`SELECT CONCAT_WS(' ', J.NAME, JOB_CLASS, E.NAME) FROM QRTZ_JOB J JOIN QRTZ_EXECUTE E ON E.PID = J.ID
		WHERE J.NAME IS NOT NULL`), "as it was")
}

func TestAnotherStartBeginsTheCountAgain(t *testing.T) {
	f := newTables(t)
	at := func(start time.Time, n int) []Declaration {
		d := declaration("once", "x")
		d.Schedules[0].Spec = Spec{Kind: Simple, Every: time.Minute, Repeat: n, Start: start}
		return []Declaration{d}
	}
	state := func() string {
		return f.Text(`SELECT CONCAT_WS(' ', STATE, TIME_TRIGGERED, (NEXT_FIRE_TIME - ?) DIV 1000) FROM QRTZ_EXECUTE`, noon.UnixMilli())
	}
	who := f.Join("n1")
	f.declare(noon, at(noon, 1))
	f.claim(who, 1, f.due(noon)...)
	require.Equal(t, "COMPLETE 1", state())
	f.declare(noon, at(noon, 1))
	require.Equal(t, "COMPLETE 1", state(), "nothing new")

	later := noon.Add(time.Hour)
	f.declare(noon, at(later, 1))
	require.Equal(t, "EXECUTING 0 3600", state(), "once, at another time")
	f.claim(who, 1, f.due(later)...)
	require.Equal(t, "COMPLETE 1", state())

	f.declare(later, at(later, 3))
	require.Equal(t, "EXECUTING 1 3660", state(), "two more of the same series")
	f.declare(later, at(noon, 100))
	require.Equal(t, "EXECUTING 0 3660", state(), "what has run is not owed again")
}

// Another end is another schedule, though nothing else has changed.
func TestAnotherEndIsDeclared(t *testing.T) {
	f := newTables(t)
	until := func(end time.Time) []Declaration {
		d := declaration("often", "x")
		d.Schedules[0].Spec.End = end
		return []Declaration{d}
	}
	ends := func() string {
		return f.Text(`SELECT CONCAT_WS(' ', STATE, IF(END_TIME > 0, (END_TIME - ?) DIV 1000, 'none')) FROM QRTZ_EXECUTE`, noon.UnixMilli())
	}
	f.declare(noon, until(noon.Add(time.Hour)))
	require.Equal(t, "EXECUTING 3600", ends())
	f.declare(noon.Add(time.Minute), until(noon.Add(2*time.Hour)))
	require.Equal(t, "EXECUTING 7200", ends(), "later")
	f.declare(noon.Add(time.Minute), until(noon.Add(90*time.Second)))
	require.Equal(t, "EXECUTING 90", ends(), "sooner")
	f.declare(noon.Add(time.Minute), until(time.Time{}))
	require.Equal(t, "EXECUTING none", ends(), "and no more")

	f.declare(noon.Add(time.Minute), until(noon.Add(time.Second)))
	f.claim(f.Join("n1"), 2, f.due(noon.Add(time.Minute))...)
	require.Equal(t, "COMPLETE 1", ends(), "its last fire has been claimed")
	f.declare(noon.Add(time.Minute), until(noon.Add(time.Hour)))
	require.Equal(t, "EXECUTING 3600", ends(), "there are more fires")
}

func TestTextIsData(t *testing.T) {
	f := newTables(t)
	d := declaration(nastyName, nastyName)
	d.Class, d.Description, d.Data = nastyName, nasty, []byte(nasty)
	f.declare(noon, []Declaration{d})
	var job struct {
		Name  string `db:"NAME"`
		Class string `db:"JOB_CLASS"`
		Data  string `db:"JOB_DATA"`
		Text  string `db:"JOB_DESCRIPTION"`
	}
	require.NoError(t, f.Get(&job, `SELECT NAME, JOB_CLASS, JOB_DATA, JOB_DESCRIPTION FROM QRTZ_JOB WHERE NAME IS NOT NULL`))
	require.Equal(t, []string{nastyName, nastyName, nasty, nasty}, []string{job.Name, job.Class, job.Data, job.Text})

	who := f.Join("n1")
	who.HostName = nasty
	r := f.claim(who, 1, f.due(noon)...).Runs[0]
	require.Equal(t, nastyName, r.Class)
	require.Equal(t, nasty, string(r.Data))
	require.Equal(t, nasty, f.Text(`SELECT HOST_NAME FROM QRTZ_EXECUTE`))

	broken := f.read(r.ExecuteID)
	message := nasty + "\xff\xfe" + strings.Repeat("ü", run.MaxMessage)
	broken.Problem = errors.New(message)
	_, err := f.store.Move(t.Context(), who, Executing, []Move{broken.ErrorMove()})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(f.Text(`SELECT STATE_REASON FROM QRTZ_EXECUTE`), nasty+"\uFFFDü"))

	late, err := f.store.runs.Complete(t.Context(), []run.Result{{Run: r, State: run.Failed, Started: noon, Finished: noon, Message: message}})
	require.NoError(t, err)
	require.Zero(t, late)
	kept := f.Text(`SELECT MESSAGE FROM QRTZ_RUN`)
	require.True(t, strings.HasPrefix(kept, nasty+"\uFFFDü"))
	require.True(t, strings.HasSuffix(kept, "ü"))
	require.LessOrEqual(t, len(kept), run.MaxMessage)

	_, err = f.store.Declare(t.Context(), noon, []Declaration{declaration("not\xffutf8")})
	require.Error(t, err)
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_JOB`))
}
