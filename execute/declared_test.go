package execute

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// says is what is said of what an operator has changed.
func says(apart []Finding) []string {
	lines := []string{}
	for _, d := range apart {
		lines = append(lines, d.String())
	}
	return lines
}

const asDeclared = `SELECT CONCAT_WS(' ', J.ATTEMPTS, J.KEEP_RUNS, J.JOB_DATA, E.REPEAT_INTERVAL, E.MISFIRE, E.STATE) FROM QRTZ_JOB J JOIN QRTZ_EXECUTE E ON E.PID = J.ID WHERE J.NAME = 'j' AND E.NAME = 'x'`

func TestWhatAnOperatorChangedStaysUntilTheProgramChangesIt(t *testing.T) {
	f := newTables(t)
	d := declaration("j", "x")
	d.Data = []byte(`{"n":1}`)
	require.Empty(t, f.declare(noon, []Declaration{d}))
	require.Equal(t, `1 0 {"n":1} 1000 FIRE_ONCE EXECUTING`, f.Text(asDeclared))

	f.Exec(`UPDATE QRTZ_JOB SET ATTEMPTS = 7, JOB_DATA = '{"n":2}' WHERE NAME = 'j'`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET REPEAT_INTERVAL = 5000, MISFIRE = 'SKIP' WHERE NAME = 'x'`)
	standing := []string{
		`job "j": JOB_DATA is "{\"n\":2}", declared "{\"n\":1}"`,
		`job "j": ATTEMPTS is "7", declared "1"`,
		`job "j", schedule "x": REPEAT_INTERVAL is "5000", declared "1000"`,
		`job "j", schedule "x": MISFIRE is "SKIP", declared "FIRE_ONCE"`,
	}
	for range 2 {
		require.Equal(t, standing, says(f.declare(noon, []Declaration{d})))
		require.Equal(t, `7 0 {"n":2} 5000 SKIP EXECUTING`, f.Text(asDeclared))
	}

	d.Options.KeepRuns = 9 // what it has not changed stays
	require.Equal(t, standing, says(f.declare(noon, []Declaration{d})))
	require.Equal(t, `7 9 {"n":2} 5000 SKIP EXECUTING`, f.Text(asDeclared))

	d.Options.Attempts = 3
	d.Schedules[0].Misfire = CatchUp
	require.Equal(t, []string{
		standing[0], `job "j": ATTEMPTS was "7", and is now "3" as declared`,
		standing[2], `job "j", schedule "x": MISFIRE was "SKIP", and is now "CATCH_UP" as declared`,
	}, says(f.declare(noon, []Declaration{d})))
	require.Equal(t, `3 9 {"n":2} 5000 CATCH_UP EXECUTING`, f.Text(asDeclared))
	require.Equal(t, []string{standing[0], standing[2]}, says(f.declare(noon, []Declaration{d})))

	d.Reset = true
	require.Empty(t, f.declare(noon, []Declaration{d}))
	require.Equal(t, `3 9 {"n":1} 1000 CATCH_UP EXECUTING`, f.Text(asDeclared))
	d.Reset = false
	require.Empty(t, f.declare(noon, []Declaration{d}))
}

func TestWhatIsAsDeclaredIsNotWritten(t *testing.T) {
	f := newTables(t)
	d := declaration("j", "x", "y")
	d.Data = []byte(strings.Repeat("long ", 1000))
	f.declare(noon, []Declaration{d})
	require.Less(t, f.Count(`SELECT LENGTH(DECLARED) FROM QRTZ_JOB WHERE NAME = 'j'`), int64(2000), "a hash of long data")
	f.Exec(`CREATE TRIGGER J BEFORE UPDATE ON QRTZ_JOB FOR EACH ROW
		IF NEW.UPDATE_TIME <> OLD.UPDATE_TIME THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'written'; END IF`)
	f.Exec(`CREATE TRIGGER E BEFORE UPDATE ON QRTZ_EXECUTE FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'written'`)
	require.Empty(t, f.declare(at(1), []Declaration{d}))
	d.Data = append(d.Data, '!')
	_, err := f.store.Declare(t.Context(), at(2), []Declaration{d})
	require.ErrorContains(t, err, "written")
}

func TestRowsOfEarlierReleasesAreWrittenOnce(t *testing.T) {
	f := newTables(t)
	f.declare(noon, []Declaration{declaration("j", "x", "y")})
	f.Exec(`UPDATE QRTZ_JOB SET ATTEMPTS = 7, DECLARED = NULL`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET REPEAT_INTERVAL = 5000`)
	f.declare(noon, []Declaration{declaration("j", "x")})
	require.Equal(t, `1 0 1000 FIRE_ONCE EXECUTING`, f.Text(asDeclared))
	require.Equal(t, "COMPLETE", f.Text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'y'`), "it was declared, since it has a name")
	f.Exec(`UPDATE QRTZ_JOB SET ATTEMPTS = 7`)
	require.Len(t, f.declare(noon, []Declaration{declaration("j", "x")}), 1)
	for _, nonsense := range []string{`{}`, `[`, `{"job": 3}`} { // the program's values once, and nothing is taken for declared
		f.Exec(`UPDATE QRTZ_JOB SET ATTEMPTS = 7, DECLARED = ?`, nonsense)
		f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING', STATE_REASON = NULL WHERE NAME = 'y'`)
		require.Empty(t, f.declare(noon, []Declaration{declaration("j", "x")}))
		require.Equal(t, `1 0 1000 FIRE_ONCE EXECUTING`, f.Text(asDeclared))
		require.Equal(t, "EXECUTING", f.Text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'y'`))
	}
}

func TestAScheduleThatAnOperatorDeletedStaysDeleted(t *testing.T) {
	f := newTables(t)
	declare := func(every time.Duration, reset bool, names ...string) []string {
		d := declaration("j", names...)
		for i := range d.Schedules {
			d.Schedules[i].Spec.Every = every
		}
		d.Reset = reset
		return says(f.declare(noon, []Declaration{d}))
	}
	there := func() string {
		return f.Text(`SELECT COALESCE(GROUP_CONCAT(NAME, ' ', STATE ORDER BY NAME), '') FROM QRTZ_EXECUTE`)
	}
	deleteX := func() { f.Exec(`DELETE FROM QRTZ_EXECUTE WHERE NAME = 'x'`) }
	require.Empty(t, declare(time.Second, false, "x", "y"))
	deleteX()
	for range 2 {
		require.Equal(t, []string{`job "j", schedule "x": declared, and deleted`}, declare(time.Second, false, "x", "y"))
		require.Equal(t, "y EXECUTING", there())
	}
	require.Empty(t, declare(time.Minute, false, "x", "y"), "the program has changed it")
	require.Equal(t, "x EXECUTING,y EXECUTING", there())
	deleteX()
	require.Empty(t, declare(time.Minute, true, "x", "y"), "reset")
	require.Equal(t, "x EXECUTING,y EXECUTING", there())
	deleteX()
	require.Empty(t, declare(time.Minute, false, "y"), "not declared any more")
	require.Empty(t, declare(time.Minute, false, "x", "y"), "and declared again")
	require.Equal(t, "x EXECUTING,y EXECUTING", there())

	require.Empty(t, declare(time.Minute, false, "y"))
	require.Equal(t, "x COMPLETE,y EXECUTING", there())
	deleteX() // complete, as it is no longer declared
	require.Empty(t, declare(time.Minute, false, "y"))
	require.Empty(t, declare(time.Minute, false, "x", "y"))
	require.Equal(t, "x EXECUTING,y EXECUTING", there())
}

func TestAScheduleThatIsNoLongerDeclaredIsTheOperators(t *testing.T) {
	f := newTables(t)
	both, one := []Declaration{declaration("j", "x", "y")}, []Declaration{declaration("j", "x")}
	y := func() string {
		return f.Text(`SELECT CONCAT_WS(' ', STATE, STATE_REASON, REPEAT_INTERVAL) FROM QRTZ_EXECUTE WHERE NAME = 'y'`)
	}
	f.declare(noon, both)
	f.Exec(`UPDATE QRTZ_EXECUTE SET REPEAT_INTERVAL = 5000 WHERE NAME = 'y'`)
	require.Empty(t, f.declare(noon, one))
	require.Equal(t, "COMPLETE no longer declared 5000", y())
	require.Len(t, f.declare(noon, both), 1, "an earlier program starts again, in a rolling upgrade")
	require.Equal(t, "EXECUTING 5000", y(), "what the operator changed is not lost by that")
	require.Empty(t, f.declare(noon, one))
	require.Equal(t, "COMPLETE no longer declared 5000", y())
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING' WHERE NAME = 'y'`)
	require.Empty(t, f.declare(noon, one))
	require.Equal(t, "EXECUTING no longer declared 5000", y(), "an operator has it fire all the same")

	f.Exec(`INSERT INTO QRTZ_EXECUTE (PID, APPLICATION, NAME, JOB_TYPE, STATE, REPEAT_INTERVAL) SELECT ID, 'a', 'own', 'SIMPLE', 'EXECUTING', 1000 FROM QRTZ_JOB WHERE NAME = 'j'`)
	require.Empty(t, f.declare(noon, one))
	require.Equal(t, "EXECUTING", f.Text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'own'`), "added by SQL, with a name")
	require.Empty(t, f.declare(noon, []Declaration{declaration("j", "x", "own")}), "the program declares it")
	require.Empty(t, f.declare(noon, one))
	require.Equal(t, "COMPLETE", f.Text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'own'`))
}

// Two versions of a program, while nodes of both start.
func TestInARollingUpgradeTheLatestDeclarationCounts(t *testing.T) {
	f := newTables(t)
	before, after := declaration("j", "x"), declaration("j", "x")
	after.Options.Attempts = 5
	f.declare(noon, []Declaration{before})
	f.Exec(`UPDATE QRTZ_EXECUTE SET MISFIRE = 'SKIP'`)
	f.Exec(`UPDATE QRTZ_JOB SET KEEP_RUNS = 4 WHERE NAME = 'j'`)
	for range 3 {
		f.declare(noon, []Declaration{after})
		require.Equal(t, `5 4 1000 SKIP EXECUTING`, f.Text(asDeclared))
		f.declare(noon, []Declaration{before})
		require.Equal(t, `1 4 1000 SKIP EXECUTING`, f.Text(asDeclared), "what both declare alike stays the operator's")
	}
}

func TestTheSeriesOfAScheduleThatAnOperatorChangedGoesByItsRow(t *testing.T) {
	f := newTables(t)
	d := declaration("j", "x")
	d.Schedules[0].Spec = Spec{Kind: Simple, Every: time.Minute, Repeat: 10, Start: noon}
	state := func() string {
		return f.Text(`SELECT CONCAT_WS(' ', STATE, TIME_TRIGGERED, (NEXT_FIRE_TIME - ?) DIV 1000) FROM QRTZ_EXECUTE`, noon.UnixMilli())
	}
	who := f.Join("n1")
	f.declare(noon, []Declaration{d})
	f.claim(who, 1, f.due(noon)...)
	f.Exec(`UPDATE QRTZ_EXECUTE SET REPEAT_INTERVAL = 10000, NEXT_FIRE_TIME = NULL`)
	f.declare(noon, []Declaration{d})
	require.Equal(t, "EXECUTING 1", state(), "the next fire is not for Declare to compute")
	d.Schedules[0].Spec.Repeat = 3
	f.declare(noon.Add(time.Second), []Declaration{d})
	require.Equal(t, "EXECUTING 1 10", state(), "the program's count, the operator's interval, the same series")
	d.Schedules[0].CatchUpLimit = 7
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'ERROR', STATE_REASON = 'why'`)
	f.declare(noon.Add(time.Second), []Declaration{d})
	require.Equal(t, "7 ERROR why 1 10", f.Text(`SELECT CONCAT_WS(' ', CATCH_UP_LIMIT, STATE, STATE_REASON, TIME_TRIGGERED, (NEXT_FIRE_TIME - ?) DIV 1000) FROM QRTZ_EXECUTE`,
		noon.UnixMilli()))
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED', STATE_REASON = NULL, START_TIME = ?`, noon.Add(time.Hour).UnixMilli())
	d.Schedules[0].Spec.Start = noon.Add(time.Minute)
	f.declare(noon.Add(time.Second), []Declaration{d})
	require.Equal(t, "PAUSED 0 60", state(), "both have given it another start: the program's")
}

func TestAMixtureThatMakesNoSenseIsTheProgramsRule(t *testing.T) {
	f := newTables(t)
	d := declaration("j", "x")
	d.Schedules[0].Spec = Spec{Kind: Cron, Cron: "0 0 2 * * ?", Zone: "Europe/Berlin", Repeat: Forever}
	rule := `SELECT CONCAT_WS(',', JOB_TYPE, CRON, ZONE_ID, REPEAT_INTERVAL, STATE) FROM QRTZ_EXECUTE`
	f.declare(noon, []Declaration{d})
	f.Exec(`UPDATE QRTZ_EXECUTE SET ZONE_ID = 'Asia/Shanghai'`)
	d.Schedules[0].Spec.Cron = "0 0 3 * * ?"
	require.Len(t, f.declare(noon, []Declaration{d}), 1)
	require.Equal(t, "CRON,0 0 3 * * ?,Asia/Shanghai,EXECUTING", f.Text(rule))

	f.Exec(`UPDATE QRTZ_EXECUTE SET ZONE_ID = 'Nowhere', STATE = 'ERROR', STATE_REASON = 'ZONE_ID'`)
	require.Len(t, f.declare(noon, []Declaration{d}), 1, "what the operator mistyped is for the operator, or Reset")
	require.Equal(t, "CRON,0 0 3 * * ?,Nowhere,ERROR", f.Text(rule))
	d.Schedules[0].Spec.Cron = "0 0 4 * * ?"
	require.Equal(t, []string{`job "j", schedule "x": ZONE_ID was "Nowhere", and is now "Europe/Berlin" as declared`}, says(f.declare(noon, []Declaration{d})))
	require.Equal(t, "CRON,0 0 4 * * ?,Europe/Berlin,EXECUTING", f.Text(rule))

	f.Exec(`UPDATE QRTZ_EXECUTE SET JOB_TYPE = 'SIMPLE', REPEAT_INTERVAL = 5000`)
	d.Schedules[0].Spec.Zone = "UTC"
	f.declare(noon, []Declaration{d})
	require.Equal(t, "CRON,0 0 4 * * ?,UTC,EXECUTING", f.Text(rule), "a zone alone would change nothing")
}

func TestLongValuesAreNotedAsHashes(t *testing.T) {
	short, long := strings.Repeat("x", longText), strings.Repeat("x", longText+1)
	require.Equal(t, short, column{"JOB_DATA", sql.NullString{String: short, Valid: true}}.text())
	require.Len(t, column{"JOB_DATA", sql.NullString{String: long, Valid: true}}.text(), len("sha256:")+64)
	require.Empty(t, column{"JOB_DATA", sql.NullString{}}.text())
	require.Equal(t, "1 0 -3", column{"", true}.text()+" "+column{"", false}.text()+" "+column{"", -3}.text())
}

// The Start of a schedule that names none is the time of its first declaration. That is no operator's doing.
func TestAStartThatIsDeclaredLaterIsNoOperatorsChange(t *testing.T) {
	f := newTables(t)
	d := declaration("j", "x")
	d.Schedules[0].Spec.Start = time.Time{}
	require.Empty(t, f.declare(noon, []Declaration{d}))
	d.Schedules[0].Spec.Start = noon.Add(time.Hour)
	require.Empty(t, says(f.declare(noon, []Declaration{d})))
	require.Equal(t, noon.Add(time.Hour).UnixMilli(), f.Count(`SELECT START_TIME FROM QRTZ_EXECUTE`))
	f.Exec(`UPDATE QRTZ_EXECUTE SET START_TIME = START_TIME + 1`)
	require.Len(t, f.declare(noon, []Declaration{d}), 1)
}

func TestTwoSchedulesOfOneNameToTheServer(t *testing.T) {
	f := newTables(t)
	d := declaration("j", "x", "X")
	_, err := f.store.Declare(t.Context(), noon, []Declaration{d})
	require.ErrorContains(t, err, `schedule "X": its name is that of another schedule of the job to the server`)
}
