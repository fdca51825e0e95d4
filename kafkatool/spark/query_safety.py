"""Check a query before it runs: it may only query our views, with functions that only compute.

Spark's own parser says what a query is, and only steps listed here pass: what a later release adds is refused
until somebody has reviewed it. `spark.sql` cannot be used for this, as it runs commands at once. The analysed
plan is checked as well: there, names are resolved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from kafkatool.errors import Refused, UsageError, nearest
from kafkatool.spark.query_functions import SCALAR, TABLE_VALUED

_SPARK = "org.apache.spark.sql."
_ANALYSIS, _EXPRESSIONS, _PLANS, _RUN = (
    *("catalyst.analysis.", "catalyst.expressions.", "catalyst.plans.logical."),
    "execution.",
)


def _named(package: str, names: str) -> set[str]:
    return {f"{_SPARK}{package}{name}" for name in names.split()}


_STEPS = frozenset(
    _named(
        _PLANS,
        "Aggregate CTERelationDef CTERelationRef Distinct Except Expand Filter Generate GlobalLimit "
        "Intersect Join LateralJoin LocalLimit LocalRelation Offset OneRowRelation Pivot Project Range "
        "RebalancePartitions Repartition RepartitionByExpression ResolvedHint Sample Sort SubqueryAlias Tail "
        "Transpose Union UnionLoop UnionLoopRef Unpivot UnresolvedHint UnresolvedWith View Window "
        "WithCTE WithWindowDefinition",
    )
    | _named(
        _ANALYSIS,
        "UnresolvedHaving UnresolvedInlineTable UnresolvedOrdinal UnresolvedQualify UnresolvedRelation "
        "UnresolvedSubqueryColumnAliases UnresolvedTableValuedFunction UnresolvedTVFAliases",
    )
    | _named(_EXPRESSIONS, "PipeOperator")
    | _named(_RUN, "LogicalRDD")
    # Steps that describe a view or a query, and run none.
    | _named(_PLANS, "DescribeColumn DescribeRelation ShowColumns ShowTables")
    | _named(_ANALYSIS, "CurrentNamespace$ ResolvedNamespace ResolvedTempView UnresolvedTableOrView")
    | _named(
        f"{_RUN}command.",
        "DescribeColumnCommand DescribeQueryCommand DescribeTableCommand ExplainCommand ShowColumnsCommand",
    )
)
"""Steps of a plan that read our views, or nothing."""
_VALUES = frozenset(
    _named(
        _ANALYSIS,
        "MultiAlias NamedParameter SQLFunctionExpression SQLScalarFunction UnresolvedAlias "
        "UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedOrdinal "
        "UnresolvedRegex UnresolvedStar UnresolvedStarExcept UnresolvedStarExceptOrReplace "
        "UnresolvedStarWithColumns UnresolvedSubqueryColumnAliases",
    )
)
"""Expressions outside Spark's package for them."""
_RUN_CODE = frozenset(
    _named(
        _EXPRESSIONS,
        "ApplyFunctionExpression CallMethodViaReflection PythonUDAF PythonUDF PythonUDTF ScalaUDF TryReflect "
        "UnresolvedPolymorphicPythonUDTF UserDefinedGenerator XmlToStructs SchemaOfXml FromAvro FromProtobuf "
        "ToAvro ToProtobuf aggregate.ScalaAggregator aggregate.ScalaUDAF aggregate.V2Aggregator",
    )
)
"""Expressions in that package that run code, or read what an argument names."""
_LEAVES = ("AttributeReference", ".Literal")


def refuse_unsafe(spark: Any, query: str, views: Collection[str], functions: Collection[str]) -> set[str]:
    """Raise Refused if a query does more than query these views; return those that it uses.

    Raises UsageError and Spark's own errors for an invalid query. The views must exist, and may be empty:
    nothing is run.
    """
    judge = _QueryJudge(spark, {*views}, SCALAR | {*functions})
    parsed = parsed_plan(spark, query)
    judge.judge(parsed)
    judge.judge(analysed_plan(spark, parsed))
    return judge.asked


def parsed_plan(spark: Any, query: str) -> Any:
    """Parse a query without checking its names."""
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(query)


def analysed_plan(spark: Any, parsed: Any) -> Any:
    """Resolve the names in a parsed query, without running anything."""
    run_nothing = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    return spark._jsparkSession.sessionState().executePlan(parsed, run_nothing).analyzed()


class _QueryJudge:
    def __init__(self, spark: Any, views: set[str], functions: Collection[str]) -> None:
        self._catalog = spark.catalog
        self._gateway = spark.sparkContext._gateway
        self._tables = views
        self._functions = functions
        self._kinds: dict[str, str] = {}
        self._views = frozenset(views)
        self.asked: set[str] = set()

    def judge(self, plan: Any) -> None:
        nodes = list(self._nodes(plan))
        for name, node in nodes:
            if name.endswith(".UnresolvedWith"):
                relations = self._items(node.cteRelations().iterator())
                self._tables = self._tables | {one._1().lower() for one in relations}
        for name, node in nodes:
            if self._kinds[name] == "step":
                self._judge_step(name, node)
            else:
                self._judge_value(name, node)

    def _judge_step(self, name: str, node: Any) -> None:
        if name not in _STEPS:
            raise _refused(f"the step {_short(name)}")
        if name.endswith(".ShowTables"):
            self.asked |= self._views
        if name.endswith((".UnresolvedRelation", ".UnresolvedTableOrView")):
            self._judge_table(node, has_options=name.endswith("Relation"))
        elif name.endswith(".UnresolvedTableValuedFunction"):
            self._judge_function(list(self._items(node.name().iterator())), TABLE_VALUED)

    def _judge_value(self, name: str, node: Any) -> None:
        known = name in _VALUES or (name.startswith(f"{_SPARK}{_EXPRESSIONS}") and name not in _RUN_CODE)
        if not known or self._kinds[name] != "value" or ".expressions.xml." in name:
            raise _refused(f"the expression {_short(name)}")
        if name.endswith(".UnresolvedFunction"):
            self._judge_function(list(self._items(node.nameParts().iterator())), self._functions)
        elif name.endswith(".UnresolvedGenerator"):
            parts = node.name().unquotedString().split(".")
            self._judge_function(parts, {*self._functions, *TABLE_VALUED})

    def _judge_table(self, node: Any, *, has_options: bool) -> None:
        parts = list(self._items(node.multipartIdentifier().iterator()))
        if len(parts) != 1 or parts[0].lower() not in self._tables:
            if _is_plain(parts) and not self._catalog.tableExists(parts[0]):
                raise UsageError(f"there is no table {parts[0]}, only {', '.join(sorted(self._views))}")
            raise _refused(f"the table {_quoted(parts)}")
        if has_options and (node.isStreaming() or not node.options().isEmpty()):
            raise _refused(f"options of the table {_quoted(parts)}")
        self.asked |= self._views & {parts[0].lower()}

    def _judge_function(self, parts: list[str], known: Collection[str]) -> None:
        if len(parts) == 1 and parts[0].lower() in known:
            return
        if _is_plain(parts) and not self._catalog.functionExists(parts[0]):
            near = nearest(parts[0].lower(), known)
            hint = "" if near is None else f"; did you mean {near}?"
            raise UsageError(f"there is no function {parts[0]}{hint}")
        raise _refused(f"the function {_quoted(parts)}")

    def _nodes(self, item: Any) -> Iterator[tuple[str, Any]]:
        """Yield every node of a tree, in whatever field of another node it is."""
        from py4j.java_gateway import JavaObject

        waiting = [item]
        while waiting:
            one = waiting.pop()
            if not isinstance(one, JavaObject):
                continue
            name = str(one.getClass().getName())
            kind = self._kind(name, one)
            if kind in ("step", "value", "node"):
                yield name, one
            if kind == "other" or name.endswith(_LEAVES):
                continue
            waiting += self._items(one.iterator() if kind == "many" else one.productIterator())

    def _kind(self, name: str, item: Any) -> str:
        from py4j.java_gateway import is_instance_of

        if name not in self._kinds:
            kinds = (
                ("step", f"{_SPARK}catalyst.plans.QueryPlan"),
                ("value", f"{_SPARK}{_EXPRESSIONS}Expression"),
                ("node", f"{_SPARK}catalyst.trees.TreeNode"),
                ("many", "scala.collection.IterableOnce"),
                ("fields", "scala.Product"),
            )
            found = (kind for kind, of in kinds if is_instance_of(self._gateway, item, of))
            self._kinds[name] = next(found, "other")
        return self._kinds[name]

    def _items(self, iterator: Any) -> Iterator[Any]:
        while iterator.hasNext():
            yield iterator.next()


def _refused(what: str) -> Refused:
    return Refused(
        f"sql only asks the views records, batches and segments: {what} is refused, and nothing was run; "
        "--unsafe-sql runs anything that Spark can do"
    )


def _is_plain(parts: list[str]) -> bool:
    return len(parts) == 1 and re.fullmatch(r"\w+", parts[0]) is not None


def _short(name: str) -> str:
    return name.rpartition(".")[2].rstrip("$")


def _quoted(parts: list[str]) -> str:
    return ".".join(f"`{part}`" for part in parts)
