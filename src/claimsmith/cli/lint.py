"""`claimsmith lint`: what is wrong with selectors, constraints and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from claimsmith.cli.exits import Exit, tell
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.allocate.lint.values import Finding
    from claimsmith.daemons.linting import LintReport

__all__ = ["lint"]


@reads_cluster
def lint(source: ClusterSource, output: Output = Format.TABLE) -> None:
    """Hold classes, claims, pods and taint rules against what the cluster publishes, and correct them.

    With files, the objects in them are looked at; else all of the snapshot or the live cluster. Exit code 1 says that
    there are errors, 2 that there was nothing to look at. The rules are told in docs/lint.md.

    Example: claimsmith lint -f claims.yaml --kubeconfig admin.conf
    """
    from claimsmith.daemons.linting import lint_manifests

    manifests, base = source.read()
    report = lint_manifests(manifests, base=base)
    for sentence in report.left_out:
        tell(sentence)
    if not report.devices:
        tell("nothing is published in what was read; selectors were held against nothing")
    if output is Format.TABLE:
        _print_text(report)
    else:
        print_value(_report_value(report), output)
    if any(finding.fault.severity == "error" for finding in report.findings):
        raise typer.Exit(Exit.DOES_NOT_FIT)
    if not report.objects and source.files:
        allowed = "classes, claims, claim templates, pods, workloads, taint rules or slices"
        raise InputError(f"lint: found nothing to look at in the files, allowed {allowed}; name other files")


def _print_text(report: LintReport) -> None:
    for finding in report.findings:
        fault = finding.fault
        place = f"{finding.source}: " if finding.source else ""
        typer.echo(f"{place}{fault.severity}: {finding.target}: {fault.path}: {fault.text} ({fault.rule})")
        if fault.corrected:
            typer.echo(f"    write: {fault.corrected}")
    counted = ", ".join(_say(_count(report, severity), severity) for severity in ("error", "warning"))
    typer.echo(f"{counted}; {_say(report.objects, 'object')}, {_say(report.devices, 'published device')}")


def _say(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _report_value(report: LintReport) -> dict[str, Any]:
    return {
        "findings": [_finding_value(finding) for finding in report.findings],
        "errors": _count(report, "error"),
        "warnings": _count(report, "warning"),
        "objects": report.objects,
        "devices": report.devices,
    }


def _finding_value(finding: Finding) -> dict[str, str]:
    fault = finding.fault
    value = {
        "severity": fault.severity,
        "rule": fault.rule,
        "kind": finding.kind,
        "namespace": finding.namespace,
        "name": finding.name,
        "path": fault.path,
        "message": fault.text,
        "corrected": fault.corrected,
        "source": finding.source,
    }
    return {key: text for key, text in value.items() if text}


def _count(report: LintReport, severity: str) -> int:
    return sum(finding.fault.severity == severity for finding in report.findings)
