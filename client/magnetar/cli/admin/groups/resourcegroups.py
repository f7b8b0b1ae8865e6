"""`magnetar admin resourcegroups`, and the commands that put namespaces into a group."""

from magnetar.cli.admin.declarations import Command, Parameter, argument, option
from magnetar.cli.admin.groups.policies import no_body
from magnetar.cli.admin.kinds import NUMBER, SIZE

PATH = "/admin/v2/resourcegroups"
GROUP = argument("group", "Name of the resource group.")
LIMITS = (
    option("-mp, --msg-publish-rate", "Messages per second.", NUMBER, member="publishRateInMsgs"),
    option("-bp, --byte-publish-rate", "Bytes per second.", SIZE, member="publishRateInBytes"),
    option("-md, --msg-dispatch-rate", "Messages per second.", NUMBER, member="dispatchRateInMsgs"),
    option("-bd, --byte-dispatch-rate", "Bytes per second.", SIZE, member="dispatchRateInBytes"),
)
NAME = option("-rgn, --resource-group-name", "Name of the resource group.", required=True)
ONE = f"{PATH}/{{group}}"

COMMANDS = (
    Command("list", "List the resource groups.", "GET", PATH),
    Command("get", "Show the limits of a resource group.", "GET", ONE, (GROUP,)),
    Command("create", "Create a resource group.", "PUT", ONE, (GROUP, *LIMITS)),
    Command("update", "Change limits of a resource group.", "PUT", ONE, (GROUP, *LIMITS)),
    Command("delete", "Delete a resource group.", "DELETE", ONE, (GROUP,)),
)
OF_NAMESPACE = "/admin/v2/namespaces/{namespace}/resourcegroup"


def of_namespaces(namespace: Parameter) -> tuple[Command, ...]:
    """Return the commands of the group `namespaces`."""
    return (
        Command(
            "get-resource-group",
            "Show the resource group of a namespace.",
            "GET",
            OF_NAMESPACE,
            (namespace,),
        ),
        Command(
            "set-resource-group",
            "Put a namespace into a resource group.",
            "POST",
            f"{OF_NAMESPACE}/{{resource_group_name}}",
            (namespace, NAME),
            body=no_body,
        ),
        Command(
            "remove-resource-group",
            "Take a namespace out of its resource group.",
            "DELETE",
            OF_NAMESPACE,
            (namespace,),
        ),
    )
