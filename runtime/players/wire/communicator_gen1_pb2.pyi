from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SpaceTypeProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    discrete: _ClassVar[SpaceTypeProto]
    continuous: _ClassVar[SpaceTypeProto]

class CommandProto(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP: _ClassVar[CommandProto]
    RESET: _ClassVar[CommandProto]
    QUIT: _ClassVar[CommandProto]
discrete: SpaceTypeProto
continuous: SpaceTypeProto
STEP: CommandProto
RESET: CommandProto
QUIT: CommandProto

class UnityMessage(_message.Message):
    __slots__ = ("header", "unity_output", "unity_input")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    UNITY_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    UNITY_INPUT_FIELD_NUMBER: _ClassVar[int]
    header: Header
    unity_output: UnityOutput
    unity_input: UnityInput
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., unity_output: _Optional[_Union[UnityOutput, _Mapping]] = ..., unity_input: _Optional[_Union[UnityInput, _Mapping]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("status", "message")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    status: int
    message: str
    def __init__(self, status: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class UnityOutput(_message.Message):
    __slots__ = ("rl_output", "rl_initialization_output")
    RL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RL_INITIALIZATION_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    rl_output: UnityRLOutput
    rl_initialization_output: UnityRLInitializationOutput
    def __init__(self, rl_output: _Optional[_Union[UnityRLOutput, _Mapping]] = ..., rl_initialization_output: _Optional[_Union[UnityRLInitializationOutput, _Mapping]] = ...) -> None: ...

class UnityInput(_message.Message):
    __slots__ = ("rl_input", "rl_initialization_input")
    RL_INPUT_FIELD_NUMBER: _ClassVar[int]
    RL_INITIALIZATION_INPUT_FIELD_NUMBER: _ClassVar[int]
    rl_input: UnityRLInput
    rl_initialization_input: UnityRLInitializationInput
    def __init__(self, rl_input: _Optional[_Union[UnityRLInput, _Mapping]] = ..., rl_initialization_input: _Optional[_Union[UnityRLInitializationInput, _Mapping]] = ...) -> None: ...

class UnityRLInitializationInput(_message.Message):
    __slots__ = ("seed",)
    SEED_FIELD_NUMBER: _ClassVar[int]
    seed: int
    def __init__(self, seed: _Optional[int] = ...) -> None: ...

class UnityRLInitializationOutput(_message.Message):
    __slots__ = ("name", "version", "log_path", "brain_parameters", "environment_parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOG_PATH_FIELD_NUMBER: _ClassVar[int]
    BRAIN_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    log_path: str
    brain_parameters: _containers.RepeatedCompositeFieldContainer[BrainParametersProto]
    environment_parameters: EnvironmentParametersProto
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., log_path: _Optional[str] = ..., brain_parameters: _Optional[_Iterable[_Union[BrainParametersProto, _Mapping]]] = ..., environment_parameters: _Optional[_Union[EnvironmentParametersProto, _Mapping]] = ...) -> None: ...

class BrainParametersProto(_message.Message):
    __slots__ = ("vector_observation_size", "num_stacked_vector_observations", "vector_action_size", "camera_resolutions", "vector_action_descriptions", "vector_action_space_type", "brain_name", "is_training")
    VECTOR_OBSERVATION_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_STACKED_VECTOR_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    VECTOR_ACTION_SIZE_FIELD_NUMBER: _ClassVar[int]
    CAMERA_RESOLUTIONS_FIELD_NUMBER: _ClassVar[int]
    VECTOR_ACTION_DESCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    VECTOR_ACTION_SPACE_TYPE_FIELD_NUMBER: _ClassVar[int]
    BRAIN_NAME_FIELD_NUMBER: _ClassVar[int]
    IS_TRAINING_FIELD_NUMBER: _ClassVar[int]
    vector_observation_size: int
    num_stacked_vector_observations: int
    vector_action_size: _containers.RepeatedScalarFieldContainer[int]
    camera_resolutions: _containers.RepeatedCompositeFieldContainer[ResolutionProto]
    vector_action_descriptions: _containers.RepeatedScalarFieldContainer[str]
    vector_action_space_type: SpaceTypeProto
    brain_name: str
    is_training: bool
    def __init__(self, vector_observation_size: _Optional[int] = ..., num_stacked_vector_observations: _Optional[int] = ..., vector_action_size: _Optional[_Iterable[int]] = ..., camera_resolutions: _Optional[_Iterable[_Union[ResolutionProto, _Mapping]]] = ..., vector_action_descriptions: _Optional[_Iterable[str]] = ..., vector_action_space_type: _Optional[_Union[SpaceTypeProto, str]] = ..., brain_name: _Optional[str] = ..., is_training: bool = ...) -> None: ...

class ResolutionProto(_message.Message):
    __slots__ = ("width", "height", "gray_scale")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    GRAY_SCALE_FIELD_NUMBER: _ClassVar[int]
    width: int
    height: int
    gray_scale: bool
    def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., gray_scale: bool = ...) -> None: ...

class EnvironmentParametersProto(_message.Message):
    __slots__ = ("float_parameters", "custom_reset_parameters")
    class FloatParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    FLOAT_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_RESET_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    float_parameters: _containers.ScalarMap[str, float]
    custom_reset_parameters: CustomResetParameters
    def __init__(self, float_parameters: _Optional[_Mapping[str, float]] = ..., custom_reset_parameters: _Optional[_Union[CustomResetParameters, _Mapping]] = ...) -> None: ...

class UnityRLInput(_message.Message):
    __slots__ = ("agent_actions", "environment_parameters", "is_training", "command")
    class ListAgentActionProto(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: _containers.RepeatedCompositeFieldContainer[AgentActionProto]
        def __init__(self, value: _Optional[_Iterable[_Union[AgentActionProto, _Mapping]]] = ...) -> None: ...
    class AgentActionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: UnityRLInput.ListAgentActionProto
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[UnityRLInput.ListAgentActionProto, _Mapping]] = ...) -> None: ...
    AGENT_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    IS_TRAINING_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    agent_actions: _containers.MessageMap[str, UnityRLInput.ListAgentActionProto]
    environment_parameters: EnvironmentParametersProto
    is_training: bool
    command: CommandProto
    def __init__(self, agent_actions: _Optional[_Mapping[str, UnityRLInput.ListAgentActionProto]] = ..., environment_parameters: _Optional[_Union[EnvironmentParametersProto, _Mapping]] = ..., is_training: bool = ..., command: _Optional[_Union[CommandProto, str]] = ...) -> None: ...

class UnityRLOutput(_message.Message):
    __slots__ = ("global_done", "agentInfos")
    class ListAgentInfoProto(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: _containers.RepeatedCompositeFieldContainer[AgentInfoProto]
        def __init__(self, value: _Optional[_Iterable[_Union[AgentInfoProto, _Mapping]]] = ...) -> None: ...
    class AgentInfosEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: UnityRLOutput.ListAgentInfoProto
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[UnityRLOutput.ListAgentInfoProto, _Mapping]] = ...) -> None: ...
    GLOBAL_DONE_FIELD_NUMBER: _ClassVar[int]
    AGENTINFOS_FIELD_NUMBER: _ClassVar[int]
    global_done: bool
    agentInfos: _containers.MessageMap[str, UnityRLOutput.ListAgentInfoProto]
    def __init__(self, global_done: bool = ..., agentInfos: _Optional[_Mapping[str, UnityRLOutput.ListAgentInfoProto]] = ...) -> None: ...

class AgentActionProto(_message.Message):
    __slots__ = ("vector_actions", "text_actions", "memories", "value", "custom_action")
    VECTOR_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    TEXT_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_ACTION_FIELD_NUMBER: _ClassVar[int]
    vector_actions: _containers.RepeatedScalarFieldContainer[float]
    text_actions: str
    memories: _containers.RepeatedScalarFieldContainer[float]
    value: float
    custom_action: CustomAction
    def __init__(self, vector_actions: _Optional[_Iterable[float]] = ..., text_actions: _Optional[str] = ..., memories: _Optional[_Iterable[float]] = ..., value: _Optional[float] = ..., custom_action: _Optional[_Union[CustomAction, _Mapping]] = ...) -> None: ...

class AgentInfoProto(_message.Message):
    __slots__ = ("stacked_vector_observation", "visual_observations", "text_observation", "stored_vector_actions", "stored_text_actions", "memories", "reward", "done", "max_step_reached", "id", "action_mask", "custom_observation")
    STACKED_VECTOR_OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    VISUAL_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    TEXT_OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    STORED_VECTOR_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_TEXT_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    MAX_STEP_REACHED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_MASK_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    stacked_vector_observation: _containers.RepeatedScalarFieldContainer[float]
    visual_observations: _containers.RepeatedScalarFieldContainer[bytes]
    text_observation: str
    stored_vector_actions: _containers.RepeatedScalarFieldContainer[float]
    stored_text_actions: str
    memories: _containers.RepeatedScalarFieldContainer[float]
    reward: float
    done: bool
    max_step_reached: bool
    id: int
    action_mask: _containers.RepeatedScalarFieldContainer[bool]
    custom_observation: CustomObservation
    def __init__(self, stacked_vector_observation: _Optional[_Iterable[float]] = ..., visual_observations: _Optional[_Iterable[bytes]] = ..., text_observation: _Optional[str] = ..., stored_vector_actions: _Optional[_Iterable[float]] = ..., stored_text_actions: _Optional[str] = ..., memories: _Optional[_Iterable[float]] = ..., reward: _Optional[float] = ..., done: bool = ..., max_step_reached: bool = ..., id: _Optional[int] = ..., action_mask: _Optional[_Iterable[bool]] = ..., custom_observation: _Optional[_Union[CustomObservation, _Mapping]] = ...) -> None: ...

class CustomAction(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CustomObservation(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CustomResetParameters(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EngineConfigurationProto(_message.Message):
    __slots__ = ("width", "height", "quality_level", "time_scale", "target_frame_rate", "show_monitor")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    QUALITY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TIME_SCALE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FRAME_RATE_FIELD_NUMBER: _ClassVar[int]
    SHOW_MONITOR_FIELD_NUMBER: _ClassVar[int]
    width: int
    height: int
    quality_level: int
    time_scale: float
    target_frame_rate: int
    show_monitor: bool
    def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., quality_level: _Optional[int] = ..., time_scale: _Optional[float] = ..., target_frame_rate: _Optional[int] = ..., show_monitor: bool = ...) -> None: ...

class DemonstrationMetaProto(_message.Message):
    __slots__ = ("api_version", "demonstration_name", "number_steps", "number_episodes", "mean_reward")
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEMONSTRATION_NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_STEPS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_EPISODES_FIELD_NUMBER: _ClassVar[int]
    MEAN_REWARD_FIELD_NUMBER: _ClassVar[int]
    api_version: int
    demonstration_name: str
    number_steps: int
    number_episodes: int
    mean_reward: float
    def __init__(self, api_version: _Optional[int] = ..., demonstration_name: _Optional[str] = ..., number_steps: _Optional[int] = ..., number_episodes: _Optional[int] = ..., mean_reward: _Optional[float] = ...) -> None: ...
